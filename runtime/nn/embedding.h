// SPDX-License-Identifier: Apache-2.0
// A table of learned rows.
#pragma once

#include <cstdint>

#include "runtime/nn/visit.h"
#include "runtime/ops/embedding.h"

namespace fanout {

struct EmbeddingOptions {
  bool sparse = false;  // the weight's gradient is kept as the rows that were used
  DType dtype = DType::f32;
};

/// The rows of a table that i64 indices name: [...] → [..., width]; see embedding in ops/embedding.h.
struct Embedding {
  Parameter weight;  // [count, width]
  bool sparse = false;

  /// Normal with mean 0 and deviation 1, as in torch. Throws InvalidArgument for a size below 1.
  Embedding(std::int64_t count, std::int64_t width, EmbeddingOptions options = {});

  void visit(Visitor& member) { member("weight", weight); }
  Tensor operator()(const Tensor& indices) const { return embedding(indices, weight, sparse); }
};

}  // namespace fanout
