// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/sgd.h"

#include "kernels/sgd.h"

namespace fanout {

// Only the first step of a parameter differs from the others, so steps are counted to 1.
Sgd::Sgd(std::vector<Tensor> parameters, SgdOptions options)
    : Optimizer("Sgd", std::move(parameters), options.learning_rate, options.momentum != 0 ? 1 : 0, 1),
      options_(options) {
  require_not_negative("momentum", options.momentum);
  require_not_negative("weight_decay", options.weight_decay);
  if (options.nesterov && (options.momentum <= 0 || options.dampening != 0)) {
    refuse("Nesterov momentum requires a momentum and zero dampening");
  }
}

void Sgd::update(const Run& run) {
  const kernels::SgdStep step{.learning_rate = learning_rate(),
                              .momentum = options_.momentum,
                              .dampening = options_.dampening,
                              .weight_decay = options_.weight_decay,
                              .nesterov = options_.nesterov,
                              .first = run.steps_before == 0};
  dispatch_floating(run.dtype, "Sgd", [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    FANOUT_CHECK(kernels::sgd_step(run.stream, reinterpret_cast<T*>(run.parameter), reinterpret_cast<T*>(run.states[0]),
                                   reinterpret_cast<const T*>(run.gradient), step, run.elements));
  });
}

void Sgd::update_sparse(const Tensor& parameter, const SparseRows& gradient) {
  add_rows(parameter, gradient, -learning_rate());
}

}  // namespace fanout
