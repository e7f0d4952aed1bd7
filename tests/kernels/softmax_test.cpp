// SPDX-License-Identifier: Apache-2.0
#include "kernels/softmax.h"

#include <algorithm>

#include "tests/kernels/matrix_check.h"

namespace fanout::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <class T>
using Forward = cudaError_t (*)(cudaStream_t, T*, const T*, std::int64_t, std::int64_t);
template <class T>
using Backward = cudaError_t (*)(cudaStream_t, T*, const T*, const T*, std::int64_t, std::int64_t);

template <class T>
std::vector<double> expected_softmax(const std::vector<T>& x, MatrixSize size, bool logarithm) {
  std::vector<double> y(x.size());
  for (std::int64_t row = 0; row < size.rows; ++row) {
    const auto begin = x.begin() + row * size.cols, end = begin + size.cols;
    const long double max = begin == end ? 0 : *std::max_element(begin, end);
    long double sum = 0;
    for (auto value = begin; value != end; ++value) sum += std::exp(*value - max);
    for (std::int64_t col = 0; col < size.cols; ++col) {
      const long double shifted = begin[col] - max;
      y[row * size.cols + col] = static_cast<double>(logarithm ? shifted - std::log(sum) : std::exp(shifted) / sum);
    }
  }
  return y;
}

template <class T>
std::vector<double> expected_backward(const std::vector<T>& dy, const std::vector<T>& y, MatrixSize size,
                                      bool logarithm) {
  std::vector<double> dx(dy.size());
  for (std::int64_t row = 0; row < size.rows; ++row) {
    long double sum = 0;
    for (std::int64_t col = 0; col < size.cols; ++col) {
      const std::int64_t i = row * size.cols + col;
      sum += logarithm ? static_cast<long double>(dy[i]) : static_cast<long double>(dy[i]) * y[i];
    }
    for (std::int64_t col = 0; col < size.cols; ++col) {
      const std::int64_t i = row * size.cols + col;
      dx[i] = static_cast<double>(logarithm ? dy[i] - std::exp(static_cast<long double>(y[i])) * sum
                                            : y[i] * (dy[i] - sum));
    }
  }
  return dx;
}

template <class T>
std::vector<T> run(Forward<T> forward, const std::vector<T>& x, MatrixSize size) {
  const DeviceArray<T> in(x);
  const auto y = DeviceArray<T>::unset(in.size());
  REQUIRE(forward(nullptr, y.data(), in.data(), size.rows, size.cols) == cudaSuccess);
  require_same(in.to_host(), x);
  return y.to_host();
}

TEMPLATE_TEST_CASE("softmax and log_softmax agree with long double at every size, in place too", "", float, double) {
  for (const bool logarithm : {false, true}) {
    const Forward<TestType> forward = logarithm ? log_softmax<TestType> : softmax<TestType>;
    for (const auto size : matrix_sizes()) {
      for (const double offset : {0., 1e4, -1e4}) {
        CAPTURE(logarithm, size.rows, size.cols, offset);
        const auto x = random_values<TestType>(size.rows * size.cols, 1, offset - 8, offset + 8);
        const auto expected = expected_softmax(x, size, logarithm);
        require_near(run(forward, x, size), expected, 4 * kRounding<TestType>);
        const DeviceArray<TestType> y(x);
        REQUIRE(forward(nullptr, y.data(), y.data(), size.rows, size.cols) == cudaSuccess);
        require_near(y.to_host(), expected, 4 * kRounding<TestType>);
      }
    }
  }
}

TEMPLATE_TEST_CASE("softmax of extreme rows is what torch gives", "", float, double) {
  const auto inf = static_cast<TestType>(kInfinity);
  const auto nan = std::numeric_limits<TestType>::quiet_NaN();
  const auto max = std::numeric_limits<TestType>::max();
  const std::vector<TestType> x = {0,    -inf, 0,    -inf,  // what is masked gets nothing
                                   max,  max,  -max, 0,     // no overflow
                                   nan,  0,    1,    2,     // a NaN spoils its row
                                   inf,  0,    1,    2,     // as does infinity
                                   -inf, -inf, -inf, -inf};
  require_same(run<TestType>(softmax, x, {5, 4}), {0.5, 0,   0.5, 0,  //
                                                   0.5, 0.5, 0,   0,  //
                                                   nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan});
  const auto logarithm = run<TestType>(log_softmax, x, {5, 4});
  CHECK(logarithm[1] == -inf);
  for (std::size_t i = 8; i < 20; ++i) CHECK(std::isnan(logarithm[i]));
}

TEMPLATE_TEST_CASE("the backwards agree with long double at every size, over dy and over y too", "", float, double) {
  for (const bool logarithm : {false, true}) {
    const Backward<TestType> backward = logarithm ? log_softmax_backward<TestType> : softmax_backward<TestType>;
    for (const auto size : matrix_sizes()) {
      CAPTURE(logarithm, size.rows, size.cols);
      const auto dy = random_values<TestType>(size.rows * size.cols, 1);
      const auto x = random_values<TestType>(size.rows * size.cols, 2);
      const auto y64 = expected_softmax(x, size, logarithm);
      const std::vector<TestType> y(y64.begin(), y64.end());
      const auto expected = expected_backward(dy, y, size, logarithm);
      const double tolerance = 4 * kRounding<TestType>;
      const DeviceArray<TestType> upstream(dy), out(y);
      const auto dx = DeviceArray<TestType>::unset(out.size());
      REQUIRE(backward(nullptr, dx.data(), upstream.data(), out.data(), size.rows, size.cols) == cudaSuccess);
      require_near(dx.to_host(), expected, tolerance);
      const DeviceArray<TestType> over_dy(dy), over_y(y);
      REQUIRE(backward(nullptr, over_dy.data(), over_dy.data(), out.data(), size.rows, size.cols) == cudaSuccess);
      require_near(over_dy.to_host(), expected, tolerance);
      REQUIRE(backward(nullptr, over_y.data(), upstream.data(), over_y.data(), size.rows, size.cols) == cudaSuccess);
      require_near(over_y.to_host(), expected, tolerance);
    }
  }
}

TEST_CASE("the backwards of softmax and log_softmax agree with finite differences") {
  for (const bool logarithm : {false, true}) {
    for (const auto size : {MatrixSize{3, 5}, MatrixSize{2, 35}}) {
      CAPTURE(logarithm, size.cols);
      const Forward<double> forward = logarithm ? log_softmax<double> : softmax<double>;
      const Backward<double> backward = logarithm ? log_softmax_backward<double> : softmax_backward<double>;
      const auto x = random_values<double>(size.rows * size.cols, 1),
                 dy = random_values<double>(size.rows * size.cols, 2);
      const DeviceArray<double> upstream(dy), y(run(forward, x, size));
      const auto dx = DeviceArray<double>::unset(y.size());
      REQUIRE(backward(nullptr, dx.data(), upstream.data(), y.data(), size.rows, size.cols) == cudaSuccess);
      const auto loss = [&](const std::vector<double>& at) { return dot(run(forward, at, size), dy); };
      require_near(dx.to_host(), finite_differences(x, loss), kDifferenceTolerance);
    }
  }
}

TEST_CASE("softmax refuses negative sizes") {
  float* const none = nullptr;
  CHECK(softmax<float>(nullptr, none, none, -1, 3) == cudaErrorInvalidValue);
  CHECK(log_softmax<float>(nullptr, none, none, 3, -1) == cudaErrorInvalidValue);
  CHECK(softmax_backward<float>(nullptr, none, none, none, -1, 3) == cudaErrorInvalidValue);
  CHECK(log_softmax_backward<float>(nullptr, none, none, none, 3, -1) == cudaErrorInvalidValue);
}

}  // namespace
}  // namespace fanout::kernels
