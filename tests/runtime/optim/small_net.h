// SPDX-License-Identifier: Apache-2.0
// Two layers, and gradients for them without a backward.
#pragma once

#include <vector>

#include "runtime/autograd/node.h"
#include "runtime/nn/linear.h"

namespace fanout::test {

struct Net {
  Linear a{3, 5}, b{5, 7};
  void visit(Visitor& member) {
    member("a", a);
    member("b", b);
  }
};

/// Every parameter has a gradient from now on, whatever its memory holds.
inline void give_all(const std::vector<Tensor>& list) {
  for (const Tensor& parameter : list) gradient_sink(parameter).set_present();
}

}  // namespace fanout::test
