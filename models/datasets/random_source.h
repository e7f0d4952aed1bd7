// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same on every machine and with every standard library.
#pragma once

#include <cstdint>
#include <random>

namespace fanout::models {

/// One stream of random numbers, picked by a seed, a use and an index, so that uses with one seed are unrelated.
/// The engine's raw output is fixed by the C++ standard; that of the standard's distributions is not, so none is used.
class RandomSource {
 public:
  enum class Use : std::uint64_t { shuffle = 1, synthetic = 2 };

  RandomSource(std::uint64_t seed, Use use, std::uint64_t index)
      : engine_(mixed(mixed(mixed(seed) + static_cast<std::uint64_t>(use)) + index)) {}

  std::uint64_t bits() { return engine_(); }

  /// Evenly from 0..limit-1; `limit` is above 0.
  std::uint64_t below(std::uint64_t limit) {
    const std::uint64_t unusable =
        (UINT64_MAX % limit + 1) % limit;  // 2^64 mod limit values would favour small results
    std::uint64_t value = bits();
    while (value > UINT64_MAX - unusable) value = bits();
    return value % limit;
  }

 private:
  // The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
  static std::uint64_t mixed(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

  std::mt19937_64 engine_;
};

}  // namespace fanout::models
