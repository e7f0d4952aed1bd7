// SPDX-License-Identifier: Apache-2.0
// Elementwise arithmetic as operators of the graph; all have derivatives of any order.
//
// Tensors are f32 or f64, and in a + b of two tensors also bf16, on one device. The right operand's shape equals the
// left's, or is the last dimensions of the left's, or has one element: then it is repeated over the rest, and its
// gradient is summed back. The result has the left's shape. Throws InvalidArgument for other shapes or dtypes,
// PlacementError where devices differ. Division by zero, logarithms and roots follow IEEE.
#pragma once

#include "runtime/autograd/accumulate.h"
#include "runtime/tensor/tensor.h"

namespace fanout {

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);

Tensor operator+(const Tensor& x, double value);
Tensor operator-(const Tensor& x, double value);
Tensor operator*(const Tensor& x, double value);
Tensor operator/(const Tensor& x, double value);
Tensor operator+(double value, const Tensor& x);
Tensor operator-(double value, const Tensor& x);
Tensor operator*(double value, const Tensor& x);
Tensor operator/(double value, const Tensor& x);

Tensor operator-(const Tensor& x);

Tensor exp(const Tensor& x);
/// Natural logarithm.
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor square(const Tensor& x);

}  // namespace fanout
