// SPDX-License-Identifier: Apache-2.0
// Dropout as an operator of the graph.
#pragma once

#include "runtime/tensor/tensor.h"

namespace fanout {

/// Each element is 0 with probability p and x / (1 - p) otherwise (arXiv:1207.0580); x itself when not training or with
/// p = 0. The mask is recomputed in backward, never stored; it comes from the device's own random sequence, so the same
/// manual_seed gives the same masks. Derivatives of any order. Throws InvalidArgument for p outside [0, 1].
Tensor dropout(const Tensor& x, double p, bool training);

}  // namespace fanout
