// SPDX-License-Identifier: Apache-2.0
// Sums of gradients.
#pragma once

#include "runtime/tensor/tensor.h"

namespace fanout {

/// a + b, elementwise, as an operator of the graph; same shape, dtype and device.
Tensor add(const Tensor& a, const Tensor& b);

/// target += source, in place and outside the graph; both contiguous, on one device or on the host.
void add_in_place(const Tensor& target, const Tensor& source);

}  // namespace fanout
