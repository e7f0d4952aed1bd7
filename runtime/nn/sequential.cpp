// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/sequential.h"

#include "runtime/nn/activation.h"
#include "runtime/nn/linear.h"

namespace fanout {

void Sequential::visit(Visitor& member) {
  for (std::size_t index = 0; index < layers_.size(); ++index) member(index, layers_[index]);
}

Tensor Sequential::operator()(Tensor x) {
  for (std::size_t index = 0; index < layers_.size(); ++index) {
    const Linear* layer = layers_[index].get_if<Linear>();
    if (layer != nullptr && index + 1 < layers_.size() && layers_[index + 1].get_if<Relu>() != nullptr) {
      x = linear_relu(x, layer->weight, layer->bias);
      ++index;
    } else {
      x = layers_[index](std::move(x));
    }
  }
  return x;
}

}  // namespace fanout
