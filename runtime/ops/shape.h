// SPDX-License-Identifier: Apache-2.0
// Other views of the same elements, and tensors put together; all have derivatives of any order.
//
// A view shares storage and its count of writes with the tensor that it was made from. Views, concat and copies work on
// the host as well. Any dtype, except expand. Dimensions may be negative, counting from the back. Throws
// InvalidArgument, naming the shapes, for what does not fit.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace fanout {

/// The same elements, row-major, in another shape; one size may be -1: what is left. A view where x has no gaps, else a
/// copy.
Tensor reshape(const Tensor& x, std::span<const std::int64_t> sizes);
inline Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> sizes) {
  return reshape(x, std::span(sizes.begin(), sizes.size()));
}
inline Tensor reshape(const Tensor& x, const Shape& shape) {
  return reshape(x, shape.sizes());
}

/// Dimensions from `first_dim` on as one.
Tensor flatten(const Tensor& x, int first_dim = 1);
/// Two dimensions exchanged: a strided view.
Tensor transpose(const Tensor& x, int dim0 = 0, int dim1 = 1);
/// Elements `start` to start + length - 1 of dimension `dim`: a view.
Tensor narrow(const Tensor& x, int dim, std::int64_t start, std::int64_t length);
/// x in a larger shape: its last dimensions, or any shape where x has one element. A copy, on a device.
Tensor expand(const Tensor& x, const Shape& shape);
/// The tensors one behind the other along `dim`; all other sizes, dtypes and devices agree.
Tensor concat(const std::vector<Tensor>& tensors, int dim = 0);

/// x itself if it has no gaps, else a copy without gaps.
Tensor contiguous(const Tensor& x);
/// x itself if it is on `device`, else a copy there; from and to the host too. Backward copies the gradient back.
Tensor to(const Tensor& x, Device device);

}  // namespace fanout
