// SPDX-License-Identifier: Apache-2.0
// The device functions that the C library lacks. expf, tanhf, erff and their like are the C library's.
#pragma once

#include <math.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <type_traits>

#define FANOUT_SIM_DEVICE_FUNCTION [[gnu::always_inline]] static inline

// As CUDA's: of mixed integers the common type, of floating-point numbers the one that is not NaN.
template <class A, class B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) FANOUT_SIM_DEVICE_FUNCTION
    constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  const T first = static_cast<T>(a), second = static_cast<T>(b);
  return second < first || first != first ? second : first;
}

template <class A, class B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) FANOUT_SIM_DEVICE_FUNCTION
    constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  const T first = static_cast<T>(a), second = static_cast<T>(b);
  return first < second || first != first ? second : first;
}

template <class T>
FANOUT_SIM_DEVICE_FUNCTION T __ldg(const T* address) {
  return *address;
}

FANOUT_SIM_DEVICE_FUNCTION float rsqrtf(float x) {
  return 1.0f / sqrtf(x);
}
FANOUT_SIM_DEVICE_FUNCTION float rsqrt(float x) {
  return 1.0f / sqrtf(x);
}
FANOUT_SIM_DEVICE_FUNCTION double rsqrt(double x) {
  return 1.0 / sqrt(x);
}
// Macros, because glibc declares functions of these names.
#define __expf(x) expf(x)
#define __logf(x) logf(x)
#define __powf(x, y) powf(x, y)
FANOUT_SIM_DEVICE_FUNCTION float __fdividef(float x, float y) {
  return x / y;
}
FANOUT_SIM_DEVICE_FUNCTION float __frcp_rn(float x) {
  return 1.0f / x;
}
FANOUT_SIM_DEVICE_FUNCTION float __fmaf_rn(float x, float y, float z) {
  return fmaf(x, y, z);
}

FANOUT_SIM_DEVICE_FUNCTION int __popc(unsigned x) {
  return std::popcount(x);
}
FANOUT_SIM_DEVICE_FUNCTION int __popcll(unsigned long long x) {
  return std::popcount(x);
}
FANOUT_SIM_DEVICE_FUNCTION int __clz(int x) {
  return std::countl_zero(static_cast<unsigned>(x));
}
FANOUT_SIM_DEVICE_FUNCTION int __clzll(long long x) {
  return std::countl_zero(static_cast<unsigned long long>(x));
}
FANOUT_SIM_DEVICE_FUNCTION int __ffs(int x) {
  return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1;
}

/// The high half of the product.
FANOUT_SIM_DEVICE_FUNCTION unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>((static_cast<std::uint64_t>(x) * y) >> 32);
}
FANOUT_SIM_DEVICE_FUNCTION unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>((static_cast<Wide>(x) * y) >> 64);
}

FANOUT_SIM_DEVICE_FUNCTION int __float_as_int(float x) {
  return std::bit_cast<int>(x);
}
FANOUT_SIM_DEVICE_FUNCTION float __int_as_float(int x) {
  return std::bit_cast<float>(x);
}
FANOUT_SIM_DEVICE_FUNCTION unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
FANOUT_SIM_DEVICE_FUNCTION float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}
FANOUT_SIM_DEVICE_FUNCTION long long __double_as_longlong(double x) {
  return std::bit_cast<long long>(x);
}
FANOUT_SIM_DEVICE_FUNCTION double __longlong_as_double(long long x) {
  return std::bit_cast<double>(x);
}

/// Stops the kernel; here the program.
[[noreturn]] FANOUT_SIM_DEVICE_FUNCTION void __trap() {
  std::abort();
}

#undef FANOUT_SIM_DEVICE_FUNCTION
