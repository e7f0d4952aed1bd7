// SPDX-License-Identifier: Apache-2.0
// The type that kernels compute in where elements are stored in a narrower one.
#pragma once

#include <cuda_bf16.h>

namespace fanout::kernels {

namespace detail {
template <class T>
struct WideOf {
  using type = T;
};
template <>
struct WideOf<__nv_bfloat16> {
  using type = float;
};
}  // namespace detail

/// float for bf16, else T itself.
template <class T>
using Wide = typename detail::WideOf<T>::type;

}  // namespace fanout::kernels
