// SPDX-License-Identifier: Apache-2.0
// Losses, as means over a batch.
#pragma once

#include "runtime/tensor/tensor.h"

namespace fanout {

/// Mean over rows of log(sum of exp(logits)) - logits[label]; shape [].
///   logits [n, c], f32 or f64;  labels [n], i64, each in [0, c); both on one device
/// The gradient is computed in the same pass over the logits. Throws InvalidArgument for no rows. A label outside its
/// range makes the loss and its row's gradient NaN: checking it would wait for the device. No second derivative.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels);

/// Mean of (x - target)² over all elements; shape []. Both have a gradient, of any order. Throws InvalidArgument for
/// no elements.
///   x, target  the same shape and dtype, on one device
Tensor mse_loss(const Tensor& x, const Tensor& target);

}  // namespace fanout
