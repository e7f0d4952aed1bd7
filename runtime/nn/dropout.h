// SPDX-License-Identifier: Apache-2.0
// Dropout as a module: on in training, the identity in evaluation.
#pragma once

#include "runtime/nn/visit.h"
#include "runtime/ops/dropout.h"

namespace fanout {

/// While training, zeroes each element with probability p and scales the others by 1/(1 - p).
struct Dropout {
  float p = 0.5f;
  Mode mode = {};

  void visit(Visitor& member) { member("mode", mode); }
  Tensor operator()(const Tensor& x) const { return dropout(x, p, mode.training); }
};

}  // namespace fanout
