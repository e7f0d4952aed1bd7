// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient descent.
#pragma once

#include <vector>

#include "runtime/optim/optimizer.h"

namespace fanout {

struct SgdOptions {
  double learning_rate = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

/// torch.optim.SGD's rule: v = momentum v + (1 - dampening) (g + weight_decay p), p -= learning_rate v; at a
/// parameter's first step v = g + weight_decay p. Without momentum and weight decay a sparse gradient changes only its
/// own rows; with one of them it is refused, since every row would change.
class Sgd final : public Optimizer {
 public:
  /// Throws InvalidArgument for a negative option, and for Nesterov's form without momentum or with dampening.
  explicit Sgd(std::vector<Tensor> parameters, SgdOptions options = {});

 private:
  void update(const Run& run) override;
  bool takes_sparse() const override { return options_.momentum == 0 && options_.weight_decay == 0; }
  void update_sparse(const Tensor& parameter, const SparseRows& gradient) override;

  SgdOptions options_;
};

}  // namespace fanout
