// SPDX-License-Identifier: Apache-2.0
// Adam and AdamW.
#pragma once

#include <vector>

#include "runtime/optim/optimizer.h"

namespace fanout {

struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

struct AdamWOptions {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 1e-2;
};

/// torch.optim.Adam's rule (arXiv:1412.6980, algorithm 1); weight decay goes through the gradient. Each parameter
/// counts its own steps.
class Adam : public Optimizer {
 public:
  /// Throws InvalidArgument for a negative option and for a beta outside [0, 1).
  explicit Adam(std::vector<Tensor> parameters, AdamOptions options = {});

 protected:
  Adam(std::string_view name, std::vector<Tensor> parameters, const AdamOptions& options, bool decoupled);

 private:
  void update(const Run& run) final;
  void require_beta(int index, double beta) const;

  AdamOptions options_;
  bool decoupled_;
};

/// torch.optim.AdamW's rule (arXiv:1711.05101, algorithm 2): weight decay acts on the parameters themselves.
class AdamW final : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> parameters, AdamWOptions options = {});
};

}  // namespace fanout
