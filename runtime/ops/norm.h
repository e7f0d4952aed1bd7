// SPDX-License-Identifier: Apache-2.0
// Normalisations as operators of the graph. They have no second derivative.
//
// f32 or f64, all operands of one dtype on one device. gamma and beta may be undefined, for 1 and 0. Throws
// InvalidArgument for other shapes or dtypes, PlacementError where devices differ.
#pragma once

#include "runtime/tensor/tensor.h"

namespace fanout {

/// (x - mean) / sqrt(variance + eps) * gamma + beta, mean and variance over the last dimension (arXiv:1607.06450).
///   x [..., c];  gamma, beta [c]
Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps);

/// The same for each column (arXiv:1502.03167). In training with the batch's own statistics, and then
/// running = (1 - momentum) * running + momentum * new, in place, the new variance divided by n - 1; the running
/// statistics may be undefined. Otherwise with the running statistics.
///   x [n, c];  running_mean, running_var, gamma, beta [c]
/// Throws InvalidArgument for one row in training: it has no variance.
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& gamma,
                  const Tensor& beta, bool training, double momentum, double eps);

}  // namespace fanout
