// SPDX-License-Identifier: Apache-2.0
// Normalisation layers.
#pragma once

#include <cstdint>

#include "runtime/nn/visit.h"

namespace fanout {

struct LayerNormOptions {
  double eps = 1e-5;
  bool affine = true;  // with weight and bias
  DType dtype = DType::f32;
};

/// Normalises each row to mean 0 and variance 1, then scales and shifts it: [..., features] → the same
/// (arXiv:1607.06450).
struct LayerNorm {
  Parameter weight, bias;  // [features], ones and zeros; without sizes if not affine
  double eps = 1e-5;

  explicit LayerNorm(std::int64_t features, LayerNormOptions options = {});

  void visit(Visitor& member);
  Tensor operator()(const Tensor& x) const;
};

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  // share of the new statistics in the running ones
  bool affine = true;     // with weight and bias
  DType dtype = DType::f32;
};

/// Normalises each column of [rows, features]: by the rows' own statistics while training, by the running ones in
/// evaluation (arXiv:1502.03167).
struct BatchNorm1d {
  Parameter weight, bias;            // [features], ones and zeros; without sizes if not affine
  Buffer running_mean, running_var;  // [features], zeros and ones
  Buffer num_batches_tracked;        // [] i64: batches seen while training
  double eps = 1e-5, momentum = 0.1;
  Mode mode;

  explicit BatchNorm1d(std::int64_t features, BatchNormOptions options = {});

  void visit(Visitor& member);
  Tensor operator()(const Tensor& x) const;

 private:
  void count_batch() const;
};

}  // namespace fanout
