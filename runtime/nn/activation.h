// SPDX-License-Identifier: Apache-2.0
// Activation functions as modules, for Sequential.
#pragma once

#include <utility>

#include "runtime/nn/visit.h"
#include "runtime/ops/activation.h"

namespace fanout {

struct Relu {
  void visit(Visitor&) {}
  Tensor operator()(Tensor x) const { return relu(std::move(x)); }
};

struct Gelu {
  void visit(Visitor&) {}
  Tensor operator()(const Tensor& x) const { return gelu(x); }
};

struct Tanh {
  void visit(Visitor&) {}
  Tensor operator()(const Tensor& x) const { return tanh(x); }
};

struct Sigmoid {
  void visit(Visitor&) {}
  Tensor operator()(const Tensor& x) const { return sigmoid(x); }
};

/// Over the last dimension.
struct Softmax {
  void visit(Visitor&) {}
  Tensor operator()(const Tensor& x) const { return softmax(x); }
};

}  // namespace fanout
