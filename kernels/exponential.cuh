// SPDX-License-Identifier: Apache-2.0
// e^x as plain arithmetic, which a compiler can turn into vector instructions; a library call it cannot.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "device_primitives.cuh"

namespace fanout::kernels {

/// 2^n for n in [-126, 127].
__device__ inline float power_of_two(std::int32_t n) {
  const std::uint32_t bits = (std::uint32_t(n) + 127u) << 23;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// e^x within 2 units in the last place, subnormal results included; 0, infinity and NaN as std::exp gives them.
/// Source: Cephes expf, S. L. Moshier 1989: x = n ln 2 + r, |r| <= ln 2 / 2, and a polynomial of degree 7 in r.
__device__ inline float exponential(float x) {
  constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the last bits
  constexpr std::int32_t kRounderBits = 0x4B400000;
  x = x < -104.0f ? -104.0f : x;  // comparisons let a NaN through
  x = x > 89.0f ? 89.0f : x;
  const float shifted = x * 1.44269504088896341f + kRounder;
  std::int32_t n;
  std::memcpy(&n, &shifted, sizeof n);
  n = std::int32_t(std::uint32_t(n) - std::uint32_t(kRounderBits));
  const float whole = shifted - kRounder;
  const float r = (x - whole * 0.693359375f) - whole * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const std::int32_t half = n >> 1;  // in two steps, since n reaches from -150 to 128
  return p * power_of_two(half) * power_of_two(n - half);
}

__device__ inline double exponential(double x) {
  return std::exp(x);
}

}  // namespace fanout::kernels
