// SPDX-License-Identifier: Apache-2.0
// Initial values, with torch's formulas; numbers come from host_generator(), so manual_seed makes them the same again.
#pragma once

#include "runtime/tensor/tensor.h"

/// Each function overwrites all elements of an f32 or f64 tensor, on the host or on a device, and counts the write.
/// A weight [out, in, ...] has fan_in = in and fan_out = out, both times the product of the other sizes; where a fan is
/// needed, a tensor of rank below 2 throws InvalidArgument.
namespace fanout::init {

void constant(const Tensor& tensor, double value);
inline void zeros(const Tensor& tensor) {
  constant(tensor, 0);
}
inline void ones(const Tensor& tensor) {
  constant(tensor, 1);
}
/// Uniform in [low, high).
void uniform(const Tensor& tensor, double low, double high);
void normal(const Tensor& tensor, double mean, double standard_deviation);

/// Uniform within ±gain sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, AISTATS 2010).
void xavier_uniform(const Tensor& weight, double gain = 1);
/// Normal with standard deviation gain sqrt(2 / (fan_in + fan_out)).
void xavier_normal(const Tensor& weight, double gain = 1);

/// Uniform within ±sqrt(6 / ((1 + a²) fan_in)), for layers before a leaky ReLU of slope a (arXiv:1502.01852).
void kaiming_uniform(const Tensor& weight, double a = 0);
/// Normal with standard deviation sqrt(2 / ((1 + a²) fan_in)).
void kaiming_normal(const Tensor& weight, double a = 0);

}  // namespace fanout::init
