// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation.h"

#include "tests/kernels/elementwise_check.h"

namespace fanout::kernels {
namespace {

using Wide = long double;

Wide reference_gelu(Wide x) {
  return x * 0.5L * (1 + std::erf(x / std::sqrt(2.0L)));
}
Wide reference_sigmoid(Wide x) {
  return 1 / (1 + std::exp(-x));
}

/// backward(dx, dy, saved, n), where `saved` is forward's output if kSavesOutput, else its input, must agree with the
/// slope that central differences of `forward` in extended precision give.
template <class T, bool kSavesOutput, class Backward>
void check_backward(Backward backward, Wide (*forward)(Wide)) {
  constexpr Wide kStep = 1e-6L;
  const auto x = random_values<T>(1025, 1, -4, 4), dy = random_values<T>(1025, 2);
  std::vector<T> saved(x.size());
  std::vector<Wide> expected(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    saved[i] = kSavesOutput ? static_cast<T>(forward(x[i])) : x[i];
    expected[i] = dy[i] * (forward(x[i] + kStep) - forward(x[i] - kStep)) / (2 * kStep);
  }
  const DeviceArray<T> saved_there(saved), dy_there(dy);
  const auto dx = DeviceArray<T>::unset(1025);
  REQUIRE(backward(dx.data(), dy_there.data(), saved_there.data(), 1025) == cudaSuccess);
  require_near(dx.to_host(), expected, std::max(kRounding<T>, 1e-10));
}

}  // namespace

TEMPLATE_TEST_CASE("relu keeps positive numbers and NaN, and makes the rest 0", "", float, double) {
  using T = TestType;
  check_unary<T>([](T* y, const T* x, auto n) { return relu(nullptr, y, x, n); },
                 [](T x) { return std::isnan(x) || x > 0 ? x : T(0); }, 0);
}

TEMPLATE_TEST_CASE("relu_backward passes the gradient where the output is positive", "", float, double) {
  using T = TestType;
  check_binary<T>([](T* dx, const T* dy, const T* y, auto n) { return relu_backward(nullptr, dx, dy, y, n); },
                  [](T dy, T y) { return std::isnan(y) || y > 0 ? dy : T(0); }, 0);
}

TEMPLATE_TEST_CASE("gelu, tanh and sigmoid agree with extended precision, NaN and infinity included", "", float,
                   double) {
  using T = TestType;
  const double near = kRounding<T>;
  check_unary<T>([](T* y, const T* x, auto n) { return gelu(nullptr, y, x, n); }, reference_gelu, near);
  check_unary<T>([](T* y, const T* x, auto n) { return tanh(nullptr, y, x, n); }, [](Wide x) { return std::tanh(x); },
                 near);
  check_unary<T>([](T* y, const T* x, auto n) { return sigmoid(nullptr, y, x, n); }, reference_sigmoid, near);
}

TEST_CASE("gelu has the values of its definition") {
  const DeviceArray<double> x({-1.0, 0.0, 1.0, 2.0});
  REQUIRE(gelu(nullptr, x.data(), x.data(), 4) == cudaSuccess);
  require_near(x.to_host(), std::vector<double>{-0.15865525393145707, 0.0, 0.8413447460685429, 1.9544997361036416},
               1e-15);
}

TEMPLATE_TEST_CASE("backwards are the slopes of their functions", "", float, double) {
  using T = TestType;
  check_backward<T, false>([](T* dx, const T* dy, const T* x, auto n) { return gelu_backward(nullptr, dx, dy, x, n); },
                           reference_gelu);
  check_backward<T, true>([](T* dx, const T* dy, const T* y, auto n) { return tanh_backward(nullptr, dx, dy, y, n); },
                          [](Wide x) { return std::tanh(x); });
  check_backward<T, true>(
      [](T* dx, const T* dy, const T* y, auto n) { return sigmoid_backward(nullptr, dx, dy, y, n); },
      reference_sigmoid);
}

TEMPLATE_TEST_CASE("backwards work at every length, alignment and alias", "", float, double) {
  using T = TestType;
  check_binary<T>([](T* dx, const T* dy, const T* y, auto n) { return tanh_backward(nullptr, dx, dy, y, n); },
                  [](T dy, T y) { return dy * (1 - y * y); }, kRounding<T>);
  check_binary<T>([](T* dx, const T* dy, const T* y, auto n) { return sigmoid_backward(nullptr, dx, dy, y, n); },
                  [](T dy, T y) { return dy * (y * (1 - y)); }, kRounding<T>);
}

}  // namespace fanout::kernels
