// SPDX-License-Identifier: Apache-2.0
// Activation functions as operators of the graph; all have derivatives of any order.
//
// f32 or f64 of any shape, on a device; PlacementError for a tensor on the host.
#pragma once

#include "runtime/tensor/tensor.h"

namespace fanout {

/// max(x, 0). A temporary whose elements nobody else can see, as in relu(linear(x, w)), is overwritten.
Tensor relu(Tensor x);
/// x Φ(x) with the exact Φ, torch's default (arXiv:1606.08415).
Tensor gelu(const Tensor& x);
Tensor tanh(const Tensor& x);
/// 1 / (1 + e^-x).
Tensor sigmoid(const Tensor& x);

/// exp(x) / sum of exp(x) over the last dimension, without overflow.
Tensor softmax(const Tensor& x);
/// Logarithm of softmax over the last dimension.
Tensor log_softmax(const Tensor& x);

/// x where y > 0 (or NaN), else 0; y is a constant of the same shape: the gradient of ReLU.
Tensor relu_mask(const Tensor& x, const Tensor& y);

}  // namespace fanout
