// SPDX-License-Identifier: Apache-2.0
#include "kernels/layer_norm.h"

#include "tests/kernels/matrix_check.h"

namespace fanout::kernels {
namespace {

constexpr double kEpsilon = 1e-5;

struct Expected {
  std::vector<double> y, mean, rstd;
};

template <class T>
Expected expected_forward(const std::vector<T>& x, const T* gamma, const T* beta, MatrixSize size) {
  Expected expected{std::vector<double>(x.size()), {}, {}};
  for (std::int64_t row = 0; row < size.rows; ++row) {
    const T* const in = x.data() + row * size.cols;
    long double mean = 0, variance = 0;
    for (std::int64_t c = 0; c < size.cols; ++c) mean += in[c];
    mean /= size.cols;
    for (std::int64_t c = 0; c < size.cols; ++c) variance += (in[c] - mean) * (in[c] - mean);
    const long double rstd = 1 / std::sqrt(variance / size.cols + T(kEpsilon));
    for (std::int64_t c = 0; c < size.cols; ++c) {
      const long double normal = (in[c] - mean) * rstd;
      expected.y[row * size.cols + c] =
          static_cast<double>(normal * (gamma == nullptr ? 1 : gamma[c]) + (beta == nullptr ? 0 : beta[c]));
    }
    expected.mean.push_back(static_cast<double>(mean));
    expected.rstd.push_back(static_cast<double>(rstd));
  }
  return expected;
}

struct Gradients {
  std::vector<double> dx, dgamma, dbeta;
};

template <class T>
Gradients expected_backward(const std::vector<T>& dy, const std::vector<T>& x, const T* gamma, MatrixSize size) {
  const auto forward = expected_forward<T>(x, nullptr, nullptr, size);  // y is then xhat
  Gradients expected{std::vector<double>(x.size()), std::vector<double>(size.cols), std::vector<double>(size.cols)};
  for (std::int64_t row = 0; row < size.rows; ++row) {
    long double g_sum = 0, product_sum = 0;
    const auto g = [&](std::int64_t c) -> long double {
      return static_cast<long double>(dy[row * size.cols + c]) * (gamma == nullptr ? T(1) : gamma[c]);
    };
    for (std::int64_t c = 0; c < size.cols; ++c) {
      const double normal = forward.y[row * size.cols + c];
      g_sum += g(c);
      product_sum += g(c) * normal;
      expected.dgamma[c] += dy[row * size.cols + c] * normal;
      expected.dbeta[c] += dy[row * size.cols + c];
    }
    for (std::int64_t c = 0; c < size.cols; ++c) {
      const std::int64_t i = row * size.cols + c;
      expected.dx[i] =
          static_cast<double>(forward.rstd[row] * (g(c) - g_sum / size.cols - forward.y[i] * product_sum / size.cols));
    }
  }
  return expected;
}

template <class T>
void check_forward(MatrixSize size, double offset, bool with_gamma, bool with_beta, double tolerance) {
  CAPTURE(size.rows, size.cols, offset, with_gamma, with_beta);
  const auto x = random_values<T>(size.rows * size.cols, 1, offset - 2, offset + 2);
  const auto gamma = random_values<T>(size.cols, 2), beta = random_values<T>(size.cols, 3);
  const DeviceArray<T> in(x), weight(gamma), bias(beta);
  const auto mean = DeviceArray<T>::unset(size.rows), rstd = DeviceArray<T>::unset(size.rows);
  const auto y = DeviceArray<T>::unset(in.size());
  const T* const g = with_gamma ? weight.data() : nullptr;
  const T* const b = with_beta ? bias.data() : nullptr;
  const auto expected =
      expected_forward(x, with_gamma ? gamma.data() : nullptr, with_beta ? beta.data() : nullptr, size);
  REQUIRE(layer_norm<T>(nullptr, y.data(), mean.data(), rstd.data(), in.data(), g, b, T(kEpsilon), size.rows,
                        size.cols) == cudaSuccess);
  require_same(in.to_host(), x);
  require_near(y.to_host(), expected.y, tolerance);
  require_near(mean.to_host(), expected.mean, kRounding<T>);
  require_near(rstd.to_host(), expected.rstd, tolerance);
  REQUIRE(layer_norm<T>(nullptr, in.data(), mean.data(), rstd.data(), in.data(), g, b, T(kEpsilon), size.rows,
                        size.cols) == cudaSuccess);
  require_near(in.to_host(), expected.y, tolerance);
}

TEMPLATE_TEST_CASE("layer_norm agrees with long double at every size, in place too", "", float, double) {
  for (const auto size : matrix_sizes()) {
    if (size.cols > 1) check_forward<TestType>(size, 0.5, true, true, 8 * kRounding<TestType>);
  }
  check_forward<TestType>({33, 70}, 0, false, true, 8 * kRounding<TestType>);
  check_forward<TestType>({33, 70}, 0, true, false, 8 * kRounding<TestType>);
  check_forward<TestType>({33, 70}, 0, false, false, 8 * kRounding<TestType>);
}

TEMPLATE_TEST_CASE("layer_norm of one column is beta, since it has no variance", "", float, double) {
  const DeviceArray<TestType> x({TestType(3), TestType(1e6)}), gamma({TestType(2)}), beta({TestType(0.25)});
  const auto y = DeviceArray<TestType>::unset(2), mean = DeviceArray<TestType>::unset(2);
  const auto rstd = DeviceArray<TestType>::unset(2);
  REQUIRE(layer_norm<TestType>(nullptr, y.data(), mean.data(), rstd.data(), x.data(), gamma.data(), beta.data(), 1, 2,
                               1) == cudaSuccess);
  require_same(y.to_host(), {TestType(0.25), TestType(0.25)});
  require_same(mean.to_host(), {TestType(3), TestType(1e6)});
  require_same(rstd.to_host(), {1, 1});
}

TEMPLATE_TEST_CASE("layer_norm keeps its digits under a large common offset", "", float, double) {
  // What is left is the rounding of the mean itself: half a unit in the last place of the offset.
  const double offset = std::is_same_v<TestType, float> ? 1e5 : 1e12;
  for (const std::int64_t cols : {33, 1023, 20'000}) {
    check_forward<TestType>({3, cols}, offset, true, true, 8 * offset * std::numeric_limits<TestType>::epsilon());
  }
}

TEMPLATE_TEST_CASE("layer_norm_backward agrees with long double at every size, over dy and x too", "", float, double) {
  for (const auto size : matrix_sizes()) {
    if (size.cols < 3) continue;
    for (const bool with_gamma : {true, false}) {
      CAPTURE(size.rows, size.cols, with_gamma);
      const auto x = random_values<TestType>(size.rows * size.cols, 1),
                 dy = random_values<TestType>(size.rows * size.cols, 2);
      const auto gamma = random_values<TestType>(size.cols, 3), before = random_values<TestType>(size.cols, 4);
      auto expected = expected_backward(dy, x, with_gamma ? gamma.data() : nullptr, size);
      const auto forward = expected_forward<TestType>(x, nullptr, nullptr, size);
      const DeviceArray<TestType> weight(gamma), upstream(dy), in(x), over_dy(dy), over_x(x);
      const DeviceArray<TestType> mean(std::vector<TestType>(forward.mean.begin(), forward.mean.end()));
      const DeviceArray<TestType> rstd(std::vector<TestType>(forward.rstd.begin(), forward.rstd.end()));
      const TestType* const g = with_gamma ? weight.data() : nullptr;
      const auto dx = DeviceArray<TestType>::unset(in.size());
      const auto dgamma = DeviceArray<TestType>::unset(size.cols), dbeta = DeviceArray<TestType>::unset(size.cols);
      const double tolerance = 8 * kRounding<TestType>, sum_tolerance = (8 + size.rows / 16.0) * kRounding<TestType>;
      REQUIRE(layer_norm_backward(nullptr, dx.data(), dgamma.data(), dbeta.data(), upstream.data(), in.data(),
                                  mean.data(), rstd.data(), g, false, size.rows, size.cols) == cudaSuccess);
      require_near(dx.to_host(), expected.dx, tolerance);
      require_near(dgamma.to_host(), expected.dgamma, sum_tolerance);
      require_near(dbeta.to_host(), expected.dbeta, sum_tolerance);
      const DeviceArray<TestType> more_gamma(before);
      TestType* const none = nullptr;
      REQUIRE(layer_norm_backward(nullptr, over_dy.data(), more_gamma.data(), none, over_dy.data(), in.data(),
                                  mean.data(), rstd.data(), g, true, size.rows, size.cols) == cudaSuccess);
      require_near(over_dy.to_host(), expected.dx, tolerance);
      for (std::size_t c = 0; c < before.size(); ++c) expected.dgamma[c] += before[c];
      require_near(more_gamma.to_host(), expected.dgamma, sum_tolerance);
      const DeviceArray<TestType> more_beta(before);
      REQUIRE(layer_norm_backward(nullptr, over_x.data(), none, more_beta.data(), upstream.data(), over_x.data(),
                                  mean.data(), rstd.data(), g, true, size.rows, size.cols) == cudaSuccess);
      require_near(over_x.to_host(), expected.dx, tolerance);
      for (std::size_t c = 0; c < before.size(); ++c) expected.dbeta[c] += before[c];
      require_near(more_beta.to_host(), expected.dbeta, sum_tolerance);
    }
  }
}

TEST_CASE("layer_norm_backward agrees with finite differences in x, gamma and beta") {
  for (const auto size : {MatrixSize{3, 5}, MatrixSize{2, 35}}) {
    CAPTURE(size.cols);
    const auto x = random_values<double>(size.rows * size.cols, 1),
               dy = random_values<double>(size.rows * size.cols, 2);
    const auto gamma = random_values<double>(size.cols, 3), beta = random_values<double>(size.cols, 4);
    const auto mean = DeviceArray<double>::unset(size.rows), rstd = DeviceArray<double>::unset(size.rows);
    const auto loss = [&](const std::vector<double>& in, const std::vector<double>& g, const std::vector<double>& b) {
      const DeviceArray<double> on_x(in), on_gamma(g), on_beta(b);
      const auto y = DeviceArray<double>::unset(on_x.size());
      REQUIRE(layer_norm<double>(nullptr, y.data(), mean.data(), rstd.data(), on_x.data(), on_gamma.data(),
                                 on_beta.data(), kEpsilon, size.rows, size.cols) == cudaSuccess);
      return dot(y.to_host(), dy);
    };
    loss(x, gamma, beta);
    const DeviceArray<double> in(x), upstream(dy), weight(gamma);
    const auto dx = DeviceArray<double>::unset(in.size());
    const auto dgamma = DeviceArray<double>::unset(size.cols), dbeta = DeviceArray<double>::unset(size.cols);
    REQUIRE(layer_norm_backward<double>(nullptr, dx.data(), dgamma.data(), dbeta.data(), upstream.data(), in.data(),
                                        mean.data(), rstd.data(), weight.data(), false, size.rows,
                                        size.cols) == cudaSuccess);
    require_near(dx.to_host(), finite_differences(x, [&](auto& at) { return loss(at, gamma, beta); }),
                 kDifferenceTolerance);
    require_near(dgamma.to_host(), finite_differences(gamma, [&](auto& at) { return loss(x, at, beta); }),
                 kDifferenceTolerance);
    require_near(dbeta.to_host(), finite_differences(beta, [&](auto& at) { return loss(x, gamma, at); }),
                 kDifferenceTolerance);
  }
}

TEST_CASE("layer_norm refuses negative sizes") {
  float* const none = nullptr;
  CHECK(layer_norm<float>(nullptr, none, none, none, none, none, none, 1, -1, 3) == cudaErrorInvalidValue);
  CHECK(layer_norm_backward<float>(nullptr, none, none, none, none, none, none, none, none, false, 3, -1) ==
        cudaErrorInvalidValue);
}

}  // namespace
}  // namespace fanout::kernels
