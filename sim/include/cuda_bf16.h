// SPDX-License-Identifier: Apache-2.0
// bfloat16, the upper half of a float: the part of CUDA's header that the runtime uses. Arithmetic goes by float.
#pragma once

#include <bit>
#include <cstdint>

#include "sim/qualifiers.h"

/// Conversions to it round to the nearest, ties to even; NaN becomes 0x7fff, as on a GPU.
struct alignas(2) __nv_bfloat16 {
  __nv_bfloat16() = default;
  __host__ __device__ inline __nv_bfloat16(float x);
  __host__ __device__ inline __nv_bfloat16(double x);
  __host__ __device__ inline __nv_bfloat16(int x);
  __host__ __device__ inline operator float() const;

  std::uint16_t bits;
};

__host__ __device__ inline float __bfloat162float(__nv_bfloat16 x) {
  return std::bit_cast<float>(std::uint32_t{x.bits} << 16);
}

__host__ __device__ inline __nv_bfloat16 __float2bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  __nv_bfloat16 result;
  result.bits = static_cast<std::uint16_t>(x != x ? 0x7fff : rounded);
  return result;
}

/// Rounds once: the float on the way is rounded to odd, so that no tie arises that was none.
__host__ __device__ inline __nv_bfloat16 __double2bfloat16(double x) {
  const float nearest = static_cast<float>(x);
  const double back = nearest;
  if (back == x || x != x) return __float2bfloat16(nearest);
  const bool grew = (back < 0 ? -back : back) > (x < 0 ? -x : x);
  return __float2bfloat16(std::bit_cast<float>((std::bit_cast<std::uint32_t>(nearest) - (grew ? 1 : 0)) | 1));
}

inline __nv_bfloat16::__nv_bfloat16(float x) : __nv_bfloat16(__float2bfloat16(x)) {}
inline __nv_bfloat16::__nv_bfloat16(double x) : __nv_bfloat16(__double2bfloat16(x)) {}
inline __nv_bfloat16::__nv_bfloat16(int x) : __nv_bfloat16(__double2bfloat16(x)) {}
inline __nv_bfloat16::operator float() const {
  return __bfloat162float(*this);
}
