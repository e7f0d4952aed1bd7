// SPDX-License-Identifier: Apache-2.0
// A multilayer perceptron of any widths.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/nn/linear.h"
#include "runtime/ops/matmul.h"

namespace fanout::models {

/// Linear layers with ReLU between them: images [batch, widths.front()] → logits [batch, widths.back()].
struct Mlp {
  std::vector<Linear> layers;

  /// `widths`: input, hidden layers, output; at least two. Initial values are torch's for Linear.
  explicit Mlp(const std::vector<std::int64_t>& widths) {
    for (std::size_t i = 1; i < widths.size(); ++i) layers.emplace_back(widths[i - 1], widths[i]);
  }

  void visit(Visitor& member) { member("layers", layers); }

  Tensor operator()(const Tensor& images) const {
    Tensor hidden = images;
    for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
      hidden = linear_relu(hidden, layers[i].weight, layers[i].bias);  // [batch, widths[i + 1]]
    }
    return layers.back()(hidden);  // [batch, classes]
  }
};

}  // namespace fanout::models
