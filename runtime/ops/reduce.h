// SPDX-License-Identifier: Apache-2.0
// Reductions. Sums and means have derivatives of any order; results are reproducible, additions have a fixed order.
//
// Floating tensors on a device. `dim` may be negative, counting from the back; with keep_dim it stays, with size 1.
// An empty sum is 0, an empty mean along a dimension NaN, as in torch. Throws InvalidArgument for a wrong dim.
#pragma once

#include "runtime/tensor/tensor.h"

namespace fanout {

/// Over all elements; the result has shape []. A mean of no elements throws InvalidArgument: as a loss it would put NaN
/// into every weight.
Tensor sum(const Tensor& x);
Tensor mean(const Tensor& x);
Tensor sum(const Tensor& x, int dim, bool keep_dim = false);
Tensor mean(const Tensor& x, int dim, bool keep_dim = false);

/// Index of the first maximum over the last dimension, as i64; a NaN counts as the maximum. Outside the graph.
Tensor argmax(const Tensor& x);

/// How many rows of logits [n, c] have their maximum at their label (i64 [n]): i64 []. Outside the graph.
Tensor count_correct(const Tensor& logits, const Tensor& labels);

}  // namespace fanout
