// SPDX-License-Identifier: Apache-2.0
#include "tools/optimizer_choice.h"

#include <utility>

#include "runtime/optim/adam.h"
#include "runtime/optim/sgd.h"

namespace fanout::tools {

std::unique_ptr<Optimizer> make_optimizer(OptimizerKind kind, std::vector<Tensor> parameters,
                                          const OptimizerSettings& settings) {
  const double learning_rate = settings.learning_rate.value_or(default_learning_rate(kind));
  switch (kind) {
    case OptimizerKind::sgd: {
      const SgdOptions sgd{.learning_rate = learning_rate, .momentum = settings.momentum};
      return std::make_unique<Sgd>(std::move(parameters), sgd);
    }
    case OptimizerKind::adam:
      return std::make_unique<Adam>(std::move(parameters), AdamOptions{.learning_rate = learning_rate});
    case OptimizerKind::adamw:
      break;
  }
  return std::make_unique<AdamW>(std::move(parameters), AdamWOptions{.learning_rate = learning_rate});
}

}  // namespace fanout::tools
