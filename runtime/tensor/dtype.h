// SPDX-License-Identifier: Apache-2.0
// Element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "runtime/device/error.h"

namespace fanout {

/// f32 for training, f64 for gradient checks, i64 for labels, u8 for data.
enum class DType : std::uint8_t { f32, f64, i64, u8 };

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
  }
  return "?";
}

constexpr bool is_floating(DType dtype) {
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
  else {
    static_assert(std::is_same_v<T, std::uint8_t>, "tensors hold float, double, std::int64_t or std::uint8_t");
    return DType::u8;
  }
}();

template <class T>
struct TypeTag {
  using type = T;
};

/// Calls f(TypeTag<float>) or f(TypeTag<double>); throws InvalidArgument naming `what` for other types.
template <class F>
decltype(auto) dispatch_floating(DType dtype, std::string_view what, F&& f) {
  if (dtype == DType::f32) return f(TypeTag<float>{});
  if (dtype == DType::f64) return f(TypeTag<double>{});
  throw InvalidArgument(std::string(what) + ": a tensor has dtype " + std::string(name(dtype)) +
                        "; f32 or f64 is needed");
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
    case DType::u8:
      break;
  }
  return f(TypeTag<std::uint8_t>{});
}

}  // namespace fanout
