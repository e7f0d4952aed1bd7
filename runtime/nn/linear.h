// SPDX-License-Identifier: Apache-2.0
// A fully connected layer.
#pragma once

#include <cstdint>

#include "runtime/nn/visit.h"
#include "runtime/ops/matmul.h"

namespace fanout {

/// x weight^T + bias: [..., in] → [..., out].
struct Linear {
  Parameter weight;  // [out, in]
  Parameter bias;    // [out]; without sizes in a layer without bias

  /// Without sizes: to be assigned to before its use.
  Linear() = default;
  /// Weight and bias uniform within ±1/sqrt(in), as in torch. Throws InvalidArgument for a size below 1.
  Linear(std::int64_t in, std::int64_t out, bool with_bias = true, DType dtype = DType::f32);

  void visit(Visitor& member) {
    member("weight", weight);
    if (bias.defined()) member("bias", bias);
  }
  Tensor operator()(const Tensor& x) const { return linear(x, weight, bias); }
};

}  // namespace fanout
