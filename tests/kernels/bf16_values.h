// SPDX-License-Identifier: Apache-2.0
// bf16 in tests: rounding by the definition, not by bits.
#pragma once

#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace fanout::kernels {

/// The bf16 number nearest to x, of two equally near ones the even one: 8 bits are kept, as the integer part of x
/// scaled.
inline double nearest_bf16(double x) {
  if (!std::isfinite(x) || x == 0) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const int last_bit = std::max(exponent - 8, -133);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -last_bit)), last_bit);
  return std::abs(rounded) >= 0x1p128 ? std::copysign(std::numeric_limits<double>::infinity(), x) : rounded;
}

template <class T>
std::vector<__nv_bfloat16> bf16_values(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

}  // namespace fanout::kernels
