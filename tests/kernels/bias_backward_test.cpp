// SPDX-License-Identifier: Apache-2.0
#include "kernels/bias_backward.h"

#include "tests/kernels/matrix_check.h"

namespace fanout::kernels {
namespace {

// Inputs are whole numbers, so that the sums are exact.
template <class T>
struct Case {
  explicit Case(MatrixSize size)
      : dy(small_integers<T>(size.rows * size.cols, 1)),
        y(small_integers<T>(size.rows * size.cols, 2)),
        dbias_before(small_integers<T>(size.cols, 3)),
        dx(dy.size()),
        dbias(dbias_before.size()) {
    for (std::size_t i = 0; i < dy.size(); ++i) {
      dx[i] = y[i] > 0 ? dy[i] : T(0);
      dbias[i % dbias.size()] += dx[i];
    }
  }
  std::vector<T> dy, y, dbias_before, dx, dbias;
};

TEMPLATE_TEST_CASE("bias_relu_backward masks the gradient and sums its columns exactly", "", float, double) {
  for (const auto size : matrix_sizes()) {
    CAPTURE(size.rows, size.cols);
    const Case<TestType> c(size);
    const DeviceArray<TestType> dy(c.dy), y(c.y);
    const auto dx = DeviceArray<TestType>::unset(dy.size());
    const auto dbias = DeviceArray<TestType>::unset(size.cols);
    REQUIRE(bias_relu_backward(nullptr, dx.data(), dbias.data(), dy.data(), y.data(), false, size.rows, size.cols) ==
            cudaSuccess);
    require_same(dx.to_host(), c.dx);
    require_same(dbias.to_host(), c.dbias);
  }
}

TEMPLATE_TEST_CASE("bias_relu_backward adds to the bias gradient in place of dy or of y", "", float, double) {
  for (const auto size : matrix_sizes()) {
    for (const bool over_dy : {true, false}) {
      CAPTURE(size.rows, size.cols, over_dy);
      const Case<TestType> c(size);
      const DeviceArray<TestType> dy(c.dy), y(c.y), dbias(c.dbias_before);
      const auto& dx = over_dy ? dy : y;
      REQUIRE(bias_relu_backward(nullptr, dx.data(), dbias.data(), dy.data(), y.data(), true, size.rows, size.cols) ==
              cudaSuccess);
      require_same(dx.to_host(), c.dx);
      auto expected = c.dbias_before;
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += c.dbias[i];
      require_same(dbias.to_host(), expected);
    }
  }
}

TEST_CASE("bias_relu_backward without a bias gradient writes dx alone") {
  const Case<float> c({33, 70});
  const DeviceArray<float> dy(c.dy), y(c.y);
  const auto dx = DeviceArray<float>::unset(dy.size());
  float* const none = nullptr;
  REQUIRE(bias_relu_backward(nullptr, dx.data(), none, dy.data(), y.data(), false, 33, 70) == cudaSuccess);
  require_same(dx.to_host(), c.dx);
}

TEST_CASE("bias_relu_backward blocks an infinite gradient where the output is zero") {
  const DeviceArray<float> dy(std::vector<float>{INFINITY, NAN, 1}), y(std::vector<float>{0, 0, 2});
  const auto dx = DeviceArray<float>::unset(3), dbias = DeviceArray<float>::unset(3);
  REQUIRE(bias_relu_backward(nullptr, dx.data(), dbias.data(), dy.data(), y.data(), false, 1, 3) == cudaSuccess);
  require_same(dx.to_host(), {0, 0, 1});
  require_same(dbias.to_host(), {0, 0, 1});
}

TEST_CASE("bias_relu_backward refuses negative sizes") {
  float* const none = nullptr;
  CHECK(bias_relu_backward<float>(nullptr, none, none, none, none, false, -1, 3) == cudaErrorInvalidValue);
  CHECK(bias_relu_backward<float>(nullptr, none, none, none, none, false, 3, -1) == cudaErrorInvalidValue);
}

}  // namespace
}  // namespace fanout::kernels
