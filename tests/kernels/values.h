// SPDX-License-Identifier: Apache-2.0
// Test inputs, and the comparison of results with an oracle's.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace fanout::kernels {

/// Lengths around the edges of packs, warps and blocks.
inline const std::vector<std::int64_t> kLengths = {0, 1, 2, 3, 4, 5, 31, 32, 33, 1023, 1025};

template <class T>
std::vector<T> random_values(std::int64_t n, unsigned seed, double low = -2, double high = 2) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  std::vector<T> values(static_cast<std::size_t>(n));
  for (T& value : values) value = static_cast<T>(uniform(generator));
  return values;
}

/// Random values whose first ones are zeros of both signs, infinities, NaN and the extremes of T, in an order set by
/// `seed`.
template <class T>
std::vector<T> wild_values(std::int64_t n, unsigned seed) {
  using Limits = std::numeric_limits<T>;
  const T wild[] = {T(0),
                    -T(0),
                    Limits::infinity(),
                    -Limits::infinity(),
                    Limits::quiet_NaN(),
                    T(1),
                    T(-1),
                    T(30),
                    Limits::max(),
                    Limits::denorm_min(),
                    T(-30)};
  std::vector<T> values = random_values<T>(n, seed);
  for (std::size_t i = 0; i < values.size() && i < 200; ++i) values[i] = wild[(i * (seed % 7 + 1) + i / 11) % 11];
  return values;
}

/// Fails at the first element that is further than `tolerance` (1 + |expected|) from its expected value. NaN equals
/// NaN.
template <class T, class U>
void require_near(const std::vector<T>& actual, const std::vector<U>& expected, double tolerance) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double a = static_cast<double>(actual[i]), e = static_cast<double>(expected[i]);
    const bool same = a == e || (std::isnan(a) && std::isnan(e));
    if (same || std::abs(a - e) <= tolerance * (1 + std::abs(e))) continue;
    FAIL("element " << i << " of " << actual.size() << " is " << a << ", expected " << e);
  }
}

/// Fails at the first element that isn't equal (NaN equals NaN).
template <class T>
void require_same(const std::vector<T>& actual, const std::vector<T>& expected) {
  require_near(actual, expected, 0);
}

/// A few roundings of T.
template <class T>
constexpr double kRounding = 8 * static_cast<double>(std::numeric_limits<T>::epsilon());

}  // namespace fanout::kernels
