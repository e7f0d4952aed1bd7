// SPDX-License-Identifier: Apache-2.0
// Random numbers: one seed for the process, a host generator for initial values, a counter per device for dropout.
#pragma once

#include <cstdint>
#include <random>

#include "runtime/device/device.h"

namespace fanout {

/// Restarts all generators from `seed`. The same seed gives the same run, whatever the platform's standard library.
void manual_seed(std::uint64_t seed);

/// Uniform and normal numbers from a fixed algorithm (the standard's distributions differ between libraries).
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : engine_(seed) {}
  /// In [low, high), with 53 random bits.
  double uniform(double low, double high);
  /// Mean 0, standard deviation 1 (Box and Muller, 1958).
  double normal();

 private:
  std::mt19937_64 engine_;
};

/// The generator of initial values. Not for several threads at once.
Generator& host_generator();

/// Which part of a device's random sequence an operator uses: Philox's key, and the first counter.
struct RandomRange {
  std::uint64_t seed, offset;
};

/// The next `elements` random elements of `device`'s own sequence, so that devices neither share nor race for numbers.
/// One thread works for a device at a time.
RandomRange next_random_range(Device device, std::int64_t elements);

}  // namespace fanout
