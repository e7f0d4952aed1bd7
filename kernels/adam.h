// SPDX-License-Identifier: Apache-2.0
// One step of Adam or AdamW over a flat vector of parameters.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace fanout::kernels {

struct AdamStep {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  // AdamW: decays the parameters themselves, not through the gradient
  std::int64_t step = 1;   // counts from 1
};

/// torch.optim.Adam's rule (AdamW's if decoupled), elementwise:
///   decoupled: p -= learning_rate weight_decay p          else: g' = g + weight_decay p
///   m = beta1 m + (1 - beta1) g'
///   v = beta2 v + (1 - beta2) g'²
///   p -= learning_rate / (1 - beta1^step) m / (√v / √(1 - beta2^step) + epsilon)
///   p  [n]     parameters, read and written
///   m, v  [n]  moments, read and written; zero before step 1
///   g  [n]     gradients; may not overlap the others
/// T: float, double; factors that don't depend on the element are formed in double, the rest is in T. Queued on
/// `stream`, does not wait. Returns the launch's error, cudaErrorInvalidValue for n < 0 or step < 1. Source:
/// arXiv:1412.6980, algorithm 1; arXiv:1711.05101, algorithm 2; the documentation of torch.optim.Adam.
template <class T>
[[nodiscard]] cudaError_t adam_step(cudaStream_t stream, T* p, T* m, T* v, const T* g, const AdamStep& step,
                                    std::int64_t n);

}  // namespace fanout::kernels
