// SPDX-License-Identifier: Apache-2.0
// The update rules of torch.optim for one element, in double, written from its documentation.
#pragma once

#include <cmath>

#include "runtime/optim/adam.h"
#include "runtime/optim/sgd.h"

namespace fanout::testing {

struct SgdRule {
  SgdOptions options;
  bool has_buffer = false;
  double buffer = 0;

  double operator()(double parameter, double gradient) {
    gradient += options.weight_decay * parameter;
    if (options.momentum != 0) {
      buffer = has_buffer ? options.momentum * buffer + (1 - options.dampening) * gradient : gradient;
      has_buffer = true;
      gradient = options.nesterov ? gradient + options.momentum * buffer : buffer;
    }
    return parameter - options.learning_rate * gradient;
  }
};

struct AdamRule {
  AdamOptions options;
  bool decoupled = false;
  int step = 0;
  double mean = 0, square = 0;

  double operator()(double parameter, double gradient) {
    ++step;
    if (decoupled) {
      parameter *= 1 - options.learning_rate * options.weight_decay;
    } else {
      gradient += options.weight_decay * parameter;
    }
    mean = options.beta1 * mean + (1 - options.beta1) * gradient;
    square = options.beta2 * square + (1 - options.beta2) * gradient * gradient;
    const double mean_hat = mean / (1 - std::pow(options.beta1, step));
    const double square_hat = square / (1 - std::pow(options.beta2, step));
    return parameter - options.learning_rate * mean_hat / (std::sqrt(square_hat) + options.epsilon);
  }
};

}  // namespace fanout::testing
