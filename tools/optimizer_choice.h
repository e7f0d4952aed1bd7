// SPDX-License-Identifier: Apache-2.0
// The optimizers that the command knows by name.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/optim/optimizer.h"
#include "tools/options.h"

namespace fanout::tools {

struct OptimizerSettings {
  std::optional<double> learning_rate;  // none: the optimizer's own of `fanout train`
  double momentum = 0.9;                // of sgd
};

std::unique_ptr<Optimizer> make_optimizer(OptimizerKind kind, std::vector<Tensor> parameters,
                                          const OptimizerSettings& settings);

}  // namespace fanout::tools
