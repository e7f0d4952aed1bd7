// SPDX-License-Identifier: Apache-2.0
// Tensors in another dtype.
#pragma once

#include "runtime/tensor/tensor.h"

namespace fanout {

/// x itself if it has this dtype, else a copy in it, each element rounded once to the nearest; on any device and on the
/// host. To f32, f64 and bf16 from any dtype. Differentiable as often as wanted: a gradient is converted back. Throws
/// InvalidArgument for an integer target.
Tensor convert(const Tensor& x, DType dtype);

}  // namespace fanout
