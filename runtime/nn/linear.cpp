// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/linear.h"

#include <fmt/format.h>

#include <cmath>

#include "runtime/nn/init.h"

namespace fanout {
namespace {

Shape weight_shape(std::int64_t in, std::int64_t out) {
  if (in < 1 || out < 1) {
    throw InvalidArgument(fmt::format("Linear({}, {}): inputs and outputs must be at least 1", in, out));
  }
  return {out, in};
}

}  // namespace

Linear::Linear(std::int64_t in, std::int64_t out, bool with_bias, DType dtype)
    : weight(weight_shape(in, out), dtype), bias(with_bias ? Parameter(Shape{out}, dtype) : Parameter()) {
  init::kaiming_uniform(weight, std::sqrt(5.0));
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  if (with_bias) init::uniform(bias, -bound, bound);
}

}  // namespace fanout
