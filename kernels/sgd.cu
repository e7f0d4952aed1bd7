// SPDX-License-Identifier: Apache-2.0
// SGD: moves 3 n sizeof(T) bytes without momentum, 5 n with (4 n at the first step). Threads: see elementwise.cuh.
#include "kernels/sgd.h"

#include "kernels/elementwise.cuh"

namespace fanout::kernels {
namespace {

template <class T>
struct Descend {
  T learning_rate, weight_decay;
  __device__ void operator()(T& p, const T& g) const { p -= learning_rate * (g + weight_decay * p); }
};

template <bool kFirst, bool kNesterov, class T>
struct DescendWithMomentum {
  T learning_rate, weight_decay, momentum, gain;  // gain = 1 - dampening
  __device__ void operator()(T& p, T& velocity, const T& g) const {
    const T gradient = g + weight_decay * p;
    velocity = kFirst ? gradient : momentum * velocity + gain * gradient;
    p -= learning_rate * (kNesterov ? gradient + momentum * velocity : velocity);
  }
};

template <bool kFirst, bool kNesterov, class T>
cudaError_t with_momentum(cudaStream_t stream, T* p, T* velocity, const T* g, const SgdStep& step, std::int64_t n) {
  const DescendWithMomentum<kFirst, kNesterov, T> f{static_cast<T>(step.learning_rate),
                                                    static_cast<T>(step.weight_decay), static_cast<T>(step.momentum),
                                                    static_cast<T>(1 - step.dampening)};
  return elementwise(stream, n, f, p, velocity, g);
}

}  // namespace

template <class T>
cudaError_t sgd_step(cudaStream_t stream, T* p, T* velocity, const T* g, const SgdStep& step, std::int64_t n) {
  if (step.nesterov && (step.momentum == 0 || step.dampening != 0)) return cudaErrorInvalidValue;
  if (step.momentum == 0) {
    return elementwise(stream, n, Descend<T>{static_cast<T>(step.learning_rate), static_cast<T>(step.weight_decay)}, p,
                       g);
  }
  if (n > 0 && !velocity) return cudaErrorInvalidValue;
  if (step.first && step.nesterov) return with_momentum<true, true>(stream, p, velocity, g, step, n);
  if (step.first) return with_momentum<true, false>(stream, p, velocity, g, step, n);
  if (step.nesterov) return with_momentum<false, true>(stream, p, velocity, g, step, n);
  return with_momentum<false, false>(stream, p, velocity, g, step, n);
}

template cudaError_t sgd_step(cudaStream_t, float*, float*, const float*, const SgdStep&, std::int64_t);
template cudaError_t sgd_step(cudaStream_t, double*, double*, const double*, const SgdStep&, std::int64_t);

}  // namespace fanout::kernels
