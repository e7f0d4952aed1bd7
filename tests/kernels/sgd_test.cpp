// SPDX-License-Identifier: Apache-2.0
#include "kernels/sgd.h"

#include "tests/kernels/device_array.h"
#include "tests/kernels/values.h"

namespace fanout::kernels {
namespace {

using Wide = long double;

/// torch.optim.SGD as its documentation writes it, one parameter in extended precision.
struct TorchSgd {
  SgdStep options;
  Wide p, buffer = 0;
  bool has_buffer = false;

  void step(Wide g) {
    if (options.weight_decay != 0) g = g + options.weight_decay * p;
    if (options.momentum != 0) {
      buffer = has_buffer ? options.momentum * buffer + (1 - options.dampening) * g : g;
      has_buffer = true;
      g = options.nesterov ? g + options.momentum * buffer : buffer;
    }
    p = p - options.learning_rate * g;
  }
};

template <class T>
void check_three_steps(SgdStep options, std::int64_t n, int shift) {
  CAPTURE(n, shift, options.momentum, options.dampening, options.weight_decay, options.nesterov);
  const auto start = random_values<T>(n, 1);
  std::vector<TorchSgd> torch;
  for (const T value : start) torch.push_back({options, value});
  const DeviceArray<T> p(start, shift);
  const auto velocity = DeviceArray<T>::unset(n);  // NaN: the first step may not read it
  for (unsigned step = 0; step < 3; ++step) {
    const auto g = random_values<T>(n, 10 + step);
    const DeviceArray<T> g_there(g);
    options.first = step == 0;
    T* const buffer = options.momentum == 0 ? nullptr : velocity.data();
    REQUIRE(sgd_step(nullptr, p.data(), buffer, g_there.data(), options, n) == cudaSuccess);
    std::vector<Wide> expected, expected_velocity;
    for (std::size_t i = 0; i < g.size(); ++i) {
      torch[i].step(g[i]);
      expected.push_back(torch[i].p);
      expected_velocity.push_back(torch[i].buffer);
    }
    require_near(p.to_host(), expected, kRounding<T>);
    if (buffer) require_near(velocity.to_host(), expected_velocity, kRounding<T>);
    require_same(g_there.to_host(), g);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("sgd_step follows torch.optim.SGD", "", float, double) {
  std::vector<SgdStep> variants(6);
  for (SgdStep& variant : variants) variant.learning_rate = 0.1;
  variants[1].weight_decay = 0.01;
  variants[2].momentum = 0.9;
  variants[3].momentum = 0.9, variants[3].weight_decay = 0.01;
  variants[4].momentum = 0.8, variants[4].dampening = 0.3;
  variants[5].momentum = 0.9, variants[5].weight_decay = 0.01, variants[5].nesterov = true;
  for (const SgdStep& variant : variants) {
    for (const auto n : kLengths) {
      for (const int shift : {0, 1}) check_three_steps<TestType>(variant, n, shift);
    }
  }
}

TEMPLATE_TEST_CASE("sgd_step on a zero velocity without dampening equals torch's first step", "", float, double) {
  using T = TestType;
  const DeviceArray<T> p(std::vector<T>{1, 2, 3}), velocity(std::vector<T>{0, 0, 0}), g(std::vector<T>{4, 8, -4});
  SgdStep step;
  step.learning_rate = 0.5;
  step.momentum = 0.5;
  REQUIRE(sgd_step(nullptr, p.data(), velocity.data(), g.data(), step, 3) == cudaSuccess);
  CHECK(p.to_host() == std::vector<T>{-1, -2, 5});
  CHECK(velocity.to_host() == std::vector<T>{4, 8, -4});
}

TEST_CASE("sgd_step refuses what torch refuses") {
  const auto refused = [](double momentum, double dampening, bool nesterov, std::int64_t n) {
    SgdStep step;
    step.momentum = momentum;
    step.dampening = dampening;
    step.nesterov = nesterov;
    return sgd_step<float>(nullptr, nullptr, nullptr, nullptr, step, n) == cudaErrorInvalidValue;
  };
  CHECK(refused(0, 0, true, 4));
  CHECK(refused(0.9, 0.1, true, 4));
  CHECK(refused(0.9, 0, false, 4));  // no velocity
  CHECK(refused(0, 0, false, -1));
  CHECK_FALSE(refused(0, 0, false, 0));
  CHECK_FALSE(refused(0.9, 0, true, 0));
}

}  // namespace fanout::kernels
