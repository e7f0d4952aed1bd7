// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/init.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/tensor/copy.h"
#include "runtime/tensor/random.h"

namespace fanout::init {
namespace {

struct Fans {
  double in, out;
};

Fans fans(const Tensor& weight, const char* what) {
  if (weight.rank() < 2) {
    throw InvalidArgument(
        fmt::format("{}: fans need a weight of rank 2 or more, this one has shape {}", what, weight.shape().text()));
  }
  const auto others = static_cast<double>(weight.shape().elements(2, weight.rank()));
  return {static_cast<double>(weight.size(1)) * others, static_cast<double>(weight.size(0)) * others};
}

// A weight without inputs has no elements to draw.
double divided(double value, double fan) {
  return fan > 0 ? value / fan : 0;
}

template <class Draw>
void fill(const Tensor& tensor, const char* what, Draw draw) {
  dispatch_floating(tensor.dtype(), what, [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    std::vector<T> values(static_cast<std::size_t>(tensor.elements()));
    std::generate(values.begin(), values.end(), [&] { return static_cast<T>(draw()); });
    copy(tensor, from_vector(values, tensor.shape()));
  });
}

void symmetric(const Tensor& tensor, const char* what, double bound) {
  fill(tensor, what, [&] { return host_generator().uniform(-bound, bound); });
}

void centred(const Tensor& tensor, const char* what, double deviation) {
  fill(tensor, what, [&] { return deviation * host_generator().normal(); });
}

}  // namespace

void constant(const Tensor& tensor, double value) {
  fill(tensor, "init::constant", [&] { return value; });
}

void uniform(const Tensor& tensor, double low, double high) {
  fill(tensor, "init::uniform", [&] { return host_generator().uniform(low, high); });
}

void normal(const Tensor& tensor, double mean, double standard_deviation) {
  fill(tensor, "init::normal", [&] { return mean + standard_deviation * host_generator().normal(); });
}

void xavier_uniform(const Tensor& weight, double gain) {
  const Fans fan = fans(weight, "init::xavier_uniform");
  symmetric(weight, "init::xavier_uniform", gain * std::sqrt(divided(6, fan.in + fan.out)));
}

void xavier_normal(const Tensor& weight, double gain) {
  const Fans fan = fans(weight, "init::xavier_normal");
  centred(weight, "init::xavier_normal", gain * std::sqrt(divided(2, fan.in + fan.out)));
}

void kaiming_uniform(const Tensor& weight, double a) {
  symmetric(weight, "init::kaiming_uniform",
            std::sqrt(divided(6 / (1 + a * a), fans(weight, "init::kaiming_uniform").in)));
}

void kaiming_normal(const Tensor& weight, double a) {
  centred(weight, "init::kaiming_normal", std::sqrt(divided(2 / (1 + a * a), fans(weight, "init::kaiming_normal").in)));
}

}  // namespace fanout::init
