// SPDX-License-Identifier: Apache-2.0
#include "kernels/adam.h"

#include "tests/kernels/device_array.h"
#include "tests/kernels/values.h"

namespace fanout::kernels {
namespace {

using Wide = long double;

/// torch.optim.Adam and AdamW as their documentation writes them, one parameter in extended precision.
struct TorchAdam {
  AdamStep options;
  Wide p, m = 0, v = 0;
  int steps = 0;

  void step(Wide g) {
    ++steps;
    if (options.decoupled) {
      p = p - Wide(options.learning_rate) * options.weight_decay * p;
    } else {
      g = g + options.weight_decay * p;
    }
    m = options.beta1 * m + (1 - Wide(options.beta1)) * g;
    v = options.beta2 * v + (1 - Wide(options.beta2)) * g * g;
    const Wide m_hat = m / (1 - std::pow(Wide(options.beta1), steps));
    const Wide v_hat = v / (1 - std::pow(Wide(options.beta2), steps));
    p = p - options.learning_rate * m_hat / (std::sqrt(v_hat) + options.epsilon);
  }
};

template <class T>
void check_steps(AdamStep options, std::int64_t n, int shift) {
  CAPTURE(n, shift, options.weight_decay, options.decoupled);
  const auto start = random_values<T>(n, 1);
  const std::vector<T> zeros(start.size(), T(0));
  std::vector<TorchAdam> torch;
  for (const T value : start) torch.push_back({options, value});
  const DeviceArray<T> p(start, shift & 1), m(zeros, shift >> 1 & 1), v(zeros, shift >> 2);
  for (options.step = 1; options.step <= 3; ++options.step) {
    const auto g = random_values<T>(n, static_cast<unsigned>(10 + options.step));
    const DeviceArray<T> g_there(g);
    REQUIRE(adam_step(nullptr, p.data(), m.data(), v.data(), g_there.data(), options, n) == cudaSuccess);
    std::vector<Wide> expected, expected_m, expected_v;
    for (std::size_t i = 0; i < g.size(); ++i) {
      torch[i].step(g[i]);
      expected.push_back(torch[i].p);
      expected_m.push_back(torch[i].m);
      expected_v.push_back(torch[i].v);
    }
    require_near(p.to_host(), expected, kRounding<T>);
    require_near(m.to_host(), expected_m, kRounding<T>);
    require_near(v.to_host(), expected_v, kRounding<T>);
    require_same(g_there.to_host(), g);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("adam_step follows torch.optim.Adam and AdamW", "", float, double) {
  for (const double weight_decay : {0.0, 0.1}) {
    for (const bool decoupled : {false, true}) {
      AdamStep options;
      options.learning_rate = 0.01;
      options.weight_decay = weight_decay;
      options.decoupled = decoupled;
      for (const auto n : kLengths) {
        for (const int shift : {0, 1, 2, 4}) check_steps<TestType>(options, n, shift);
      }
    }
  }
}

TEMPLATE_TEST_CASE("adam_step's first step moves each parameter by the learning rate, whatever the gradient's size", "",
                   float, double) {
  using T = TestType;
  const DeviceArray<T> p(std::vector<T>{1, 1, 1, 1}), m(std::vector<T>(4, T(0))), v(std::vector<T>(4, T(0)));
  const DeviceArray<T> g(std::vector<T>{T(1e-3), T(-1e-3), T(1e3), T(0)});
  AdamStep step;
  step.learning_rate = 0.125;
  REQUIRE(adam_step(nullptr, p.data(), m.data(), v.data(), g.data(), step, 4) == cudaSuccess);
  require_near(p.to_host(), std::vector<double>{0.875, 1.125, 0.875, 1}, 1e-5);
}

TEST_CASE("adam_step forgets the bias corrections after many steps") {
  const DeviceArray<double> p({1.0}), m({0.5}), v({0.25}), g({0.5});
  AdamStep step;
  step.learning_rate = 0.125;
  step.step = 1'000'000'000'000;
  REQUIRE(adam_step(nullptr, p.data(), m.data(), v.data(), g.data(), step, 1) == cudaSuccess);
  require_near(p.to_host(), std::vector<double>{0.875}, 1e-8);
}

TEST_CASE("adam_step refuses a step before the first and a negative length") {
  AdamStep step;
  CHECK(adam_step<float>(nullptr, nullptr, nullptr, nullptr, nullptr, step, 0) == cudaSuccess);
  CHECK(adam_step<float>(nullptr, nullptr, nullptr, nullptr, nullptr, step, -1) == cudaErrorInvalidValue);
  step.step = 0;
  CHECK(adam_step<float>(nullptr, nullptr, nullptr, nullptr, nullptr, step, 4) == cudaErrorInvalidValue);
}

}  // namespace fanout::kernels
