// SPDX-License-Identifier: Apache-2.0
// One step of stochastic gradient descent over a flat vector of parameters.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace fanout::kernels {

struct SgdStep {
  double learning_rate = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool first = false;  // the first step: velocity = gradient without dampening, and the old velocity isn't read
};

/// torch.optim.SGD's rule, elementwise:
///   g' = g + weight_decay p
///   v  = momentum v + (1 - dampening) g'     (first: v = g')
///   p -= learning_rate (nesterov ? g' + momentum v : v)
/// and with momentum 0 only p -= learning_rate g'.
///   p         [n]  parameters, read and written
///   velocity  [n]  read and written; null if momentum is 0
///   g         [n]  gradients; may not overlap the others
/// T: float, double; the arithmetic is in T. Queued on `stream`, does not wait. Returns the launch's error,
/// cudaErrorInvalidValue for n < 0, momentum without velocity, or nesterov with dampening or without momentum. Source:
/// the documentation of torch.optim.SGD; Nesterov's form from Sutskever et al., ICML 2013.
template <class T>
[[nodiscard]] cudaError_t sgd_step(cudaStream_t stream, T* p, T* velocity, const T* g, const SgdStep& step,
                                   std::int64_t n);

}  // namespace fanout::kernels
