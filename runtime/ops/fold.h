// SPDX-License-Identifier: Apache-2.0
// Sums along a dimension and repetitions over one: each is the other's gradient. Reductions and broadcasts are made of
// them.
#pragma once

#include "runtime/autograd/node.h"
#include "runtime/tensor/tensor.h"

namespace fanout {

/// A tensor seen as [outer, length, inner], its folded form as [outer, inner].
struct Fold {
  std::int64_t outer = 1, length = 1, inner = 1;
};

/// scale * (sum of x over `length`), in shape `result` of outer * inner elements. Differentiable, as often as wanted.
Tensor fold_sum(const Tensor& x, Fold fold, const Shape& result, double scale);

/// scale * x for each of `length`, in shape `result` of outer * length * inner elements. Differentiable, as often as
/// wanted.
Tensor fold_repeat(const Tensor& x, Fold fold, const Shape& result, double scale);

/// The same sum of a contiguous x, written or added to where a gradient belongs, which for a bf16 x may be in f32;
/// outside the graph.
void fold_sum_into(const Destination& to, const Tensor& x, Fold fold, double scale);

}  // namespace fanout
