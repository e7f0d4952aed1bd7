// SPDX-License-Identifier: Apache-2.0
// The tensors inside a value: tuples, pairs, optionals, ranges and maps, nested to any depth.
#pragma once

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "runtime/tensor/tensor.h"

namespace fanout {
namespace detail {

template <class T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};
template <class T>
concept MapLike = requires(T& value) {
  typename T::mapped_type;
  value.begin();
  value.end();
};
template <class T>
concept RangeLike = requires(T& value) {
  typename T::value_type;
  value.begin();
  value.end();
};
template <class T>
concept OptionalLike = std::is_same_v<T, std::optional<typename T::value_type>>;

}  // namespace detail

/// Calls f(Tensor&) for each tensor inside `value`, in order: of tuples, pairs and arrays by position, of maps the
/// mapped values by key. Anything else holds no tensor.
template <class T, class F>
void visit_tensors(T& value, F&& f) {
  using Plain = std::remove_const_t<T>;
  if constexpr (std::is_base_of_v<Tensor, Plain>) {
    f(value);
  } else if constexpr (detail::OptionalLike<Plain>) {
    if (value) visit_tensors(*value, f);
  } else if constexpr (detail::MapLike<Plain>) {
    for (auto& [key, mapped] : value) visit_tensors(mapped, f);
  } else if constexpr (detail::RangeLike<Plain>) {
    if constexpr (!std::is_arithmetic_v<typename Plain::value_type>) {
      for (auto& element : value) visit_tensors(element, f);
    }
  } else if constexpr (detail::TupleLike<Plain>) {
    std::apply([&](auto&... elements) { (visit_tensors(elements, f), ...); }, value);
  }
}

}  // namespace fanout
