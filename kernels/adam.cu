// SPDX-License-Identifier: Apache-2.0
// Adam and AdamW: moves 7 n sizeof(T) bytes (p, m, v both ways, g once). Threads: see elementwise.cuh.
#include "kernels/adam.h"

#include <cmath>

#include "kernels/elementwise.cuh"

namespace fanout::kernels {
namespace {

template <class T>
struct AdamUpdate {
  T keep;                 // of the parameter: 1, or 1 - learning_rate weight_decay if decoupled
  T decay;                // of the parameter in the gradient: 0 if decoupled
  T gain1, beta2, gain2;  // gain = 1 - beta
  T rate;                 // learning_rate / (1 - beta1^step)
  T correction;           // 1 / √(1 - beta2^step)
  T epsilon;

  __device__ void operator()(T& p, T& m, T& v, const T& g) const {
    const T gradient = g + decay * p;
    m += gain1 * (gradient - m);
    v = beta2 * v + gain2 * gradient * gradient;
    p = keep * p - rate * m / (std::sqrt(v) * correction + epsilon);
  }
};

}  // namespace

template <class T>
cudaError_t adam_step(cudaStream_t stream, T* p, T* m, T* v, const T* g, const AdamStep& step, std::int64_t n) {
  if (step.step < 1) return cudaErrorInvalidValue;
  const double count = static_cast<double>(step.step);
  AdamUpdate<T> f;
  f.keep = static_cast<T>(step.decoupled ? 1 - step.learning_rate * step.weight_decay : 1);
  f.decay = static_cast<T>(step.decoupled ? 0 : step.weight_decay);
  f.gain1 = static_cast<T>(1 - step.beta1);
  f.beta2 = static_cast<T>(step.beta2);
  f.gain2 = static_cast<T>(1 - step.beta2);
  f.rate = static_cast<T>(step.learning_rate / (1 - std::pow(step.beta1, count)));
  f.correction = static_cast<T>(1 / std::sqrt(1 - std::pow(step.beta2, count)));
  f.epsilon = static_cast<T>(step.epsilon);
  return elementwise(stream, n, f, p, m, v, g);
}

template cudaError_t adam_step(cudaStream_t, float*, float*, float*, const float*, const AdamStep&, std::int64_t);
template cudaError_t adam_step(cudaStream_t, double*, double*, double*, const double*, const AdamStep&, std::int64_t);

}  // namespace fanout::kernels
