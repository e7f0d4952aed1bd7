// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/adam.h"

#include <fmt/format.h>

#include "kernels/adam.h"

namespace fanout {

Adam::Adam(std::vector<Tensor> parameters, AdamOptions options) : Adam("Adam", std::move(parameters), options, false) {}

Adam::Adam(std::string_view name, std::vector<Tensor> parameters, const AdamOptions& options, bool decoupled)
    : Optimizer(name, std::move(parameters), options.learning_rate, 2), options_(options), decoupled_(decoupled) {
  require_not_negative("epsilon", options.epsilon);
  require_not_negative("weight_decay", options.weight_decay);
  require_beta(1, options.beta1);
  require_beta(2, options.beta2);
}

AdamW::AdamW(std::vector<Tensor> parameters, AdamWOptions options)
    : Adam("AdamW", std::move(parameters),
           {.learning_rate = options.learning_rate,
            .beta1 = options.beta1,
            .beta2 = options.beta2,
            .epsilon = options.epsilon,
            .weight_decay = options.weight_decay},
           true) {}

void Adam::require_beta(int index, double beta) const {
  if (!(beta >= 0 && beta < 1))
    refuse(fmt::format("invalid beta{} {}; it must be at least 0 and below 1", index, beta));
}

void Adam::update(const Run& run) {
  const kernels::AdamStep step{.learning_rate = learning_rate(),
                               .beta1 = options_.beta1,
                               .beta2 = options_.beta2,
                               .epsilon = options_.epsilon,
                               .weight_decay = options_.weight_decay,
                               .decoupled = decoupled_,
                               .step = run.steps_before + 1};
  dispatch_floating(run.dtype, "Adam", [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    FANOUT_CHECK(kernels::adam_step(run.stream, reinterpret_cast<T*>(run.parameter),
                                    reinterpret_cast<T*>(run.states[0]), reinterpret_cast<T*>(run.states[1]),
                                    reinterpret_cast<const T*>(run.gradient), step, run.elements));
  });
}

}  // namespace fanout
