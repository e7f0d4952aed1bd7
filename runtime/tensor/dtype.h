// SPDX-License-Identifier: Apache-2.0
// Element types of tensors.
#pragma once

#include <cuda_bf16.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "runtime/device/error.h"

namespace fanout {

/// f32 for training, f64 for gradient checks, i64 for labels, u8 for data; bf16 to store and to multiply matrices.
enum class DType : std::uint8_t { f32, f64, i64, u8, bf16 };

constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 4;
    case DType::f64:
      return 8;
    case DType::i64:
      return 8;
    case DType::u8:
      return 1;
    case DType::bf16:
      return 2;
  }
  return 0;
}

constexpr std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::i64:
      return "i64";
    case DType::u8:
      return "u8";
    case DType::bf16:
      return "bf16";
  }
  return "?";
}

/// True for the types that can have a gradient.
constexpr bool is_floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16;
}
/// True for the types that parameters have and that all floating operators compute in.
constexpr bool is_full_precision(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64;
}

template <class T>
inline constexpr DType kDTypeOf = [] {
  if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return DType::i64;
  else if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return DType::bf16;
  else {
    static_assert(std::is_same_v<T, std::uint8_t>,
                  "tensors hold float, double, __nv_bfloat16, std::int64_t or std::uint8_t");
    return DType::u8;
  }
}();

template <class T>
struct TypeTag {
  using type = T;
};

namespace detail {
[[noreturn]] inline void throw_not_floating(DType dtype, std::string_view what) {
  const std::string operation(what);
  if (dtype == DType::bf16) {
    throw InvalidArgument(operation +
                          ": this operator computes in f32 or f64; convert(x, DType::f32) first, or run it under "
                          "Autocast");
  }
  throw InvalidArgument(operation + ": a tensor has dtype " + std::string(name(dtype)) + "; f32 or f64 is needed");
}
}  // namespace detail

/// Calls f(TypeTag<float>) or f(TypeTag<double>); throws InvalidArgument naming `what` for other types.
template <class F>
decltype(auto) dispatch_floating(DType dtype, std::string_view what, F&& f) {
  if (dtype == DType::f32) return f(TypeTag<float>{});
  if (dtype == DType::f64) return f(TypeTag<double>{});
  detail::throw_not_floating(dtype, what);
}

/// The same for what works in bf16 too: also calls f(TypeTag<__nv_bfloat16>).
template <class F>
decltype(auto) dispatch_any_floating(DType dtype, std::string_view what, F&& f) {
  if (dtype == DType::bf16) return f(TypeTag<__nv_bfloat16>{});
  return dispatch_floating(dtype, what, std::forward<F>(f));
}

/// Calls f(TypeTag<T>) for the element type of `dtype`.
template <class F>
decltype(auto) dispatch_any(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(TypeTag<float>{});
    case DType::f64:
      return f(TypeTag<double>{});
    case DType::i64:
      return f(TypeTag<std::int64_t>{});
    case DType::bf16:
      return f(TypeTag<__nv_bfloat16>{});
    case DType::u8:
      break;
  }
  return f(TypeTag<std::uint8_t>{});
}

}  // namespace fanout
