// SPDX-License-Identifier: Apache-2.0
#include "kernels/batch_norm.h"

#include "tests/kernels/matrix_check.h"

namespace fanout::kernels {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr double kMomentum = 0.25;

struct Statistics {
  std::vector<double> mean, variance, rstd;
};

template <class T>
Statistics expected_statistics(const std::vector<T>& x, MatrixSize size) {
  Statistics expected;
  for (std::int64_t c = 0; c < size.cols; ++c) {
    long double mean = 0, variance = 0;
    for (std::int64_t row = 0; row < size.rows; ++row) mean += x[row * size.cols + c];
    mean /= size.rows;
    for (std::int64_t row = 0; row < size.rows; ++row) {
      variance += (x[row * size.cols + c] - mean) * (x[row * size.cols + c] - mean);
    }
    variance /= size.rows;
    expected.mean.push_back(static_cast<double>(mean));
    expected.variance.push_back(static_cast<double>(variance));
    expected.rstd.push_back(static_cast<double>(1 / std::sqrt(variance + T(kEpsilon))));
  }
  return expected;
}

template <class T, class S>
std::vector<double> expected_normal(const std::vector<T>& x, const std::vector<S>& mean,
                                    const std::vector<double>& rstd, const T* gamma, const T* beta) {
  std::vector<double> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % mean.size();
    const long double normal = (static_cast<long double>(x[i]) - mean[c]) * rstd[c];
    y[i] = static_cast<double>(normal * (gamma == nullptr ? 1 : gamma[c]) + (beta == nullptr ? 0 : beta[c]));
  }
  return y;
}

std::vector<double> inverse_roots(const std::vector<double>& variance, double epsilon) {
  std::vector<double> rstd;
  for (const double v : variance) rstd.push_back(1 / std::sqrt(v + epsilon));
  return rstd;
}

struct Gradients {
  std::vector<double> dx, dgamma, dbeta;
};

// With `fixed` statistics they are constants, else functions of x.
template <class T>
Gradients expected_backward(const std::vector<T>& dy, const std::vector<double>& normal,
                            const std::vector<double>& rstd, const T* gamma, MatrixSize size, bool fixed) {
  Gradients expected{std::vector<double>(dy.size()), std::vector<double>(size.cols), std::vector<double>(size.cols)};
  for (std::size_t i = 0; i < dy.size(); ++i) {
    expected.dgamma[i % size.cols] += dy[i] * normal[i];
    expected.dbeta[i % size.cols] += dy[i];
  }
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const std::size_t c = i % size.cols;
    const double means = (expected.dbeta[c] + normal[i] * expected.dgamma[c]) / static_cast<double>(size.rows);
    expected.dx[i] = (gamma == nullptr ? 1 : gamma[c]) * rstd[c] * (dy[i] - (fixed ? 0 : means));
  }
  return expected;
}

template <class T>
std::vector<T> narrowed(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

template <class T>
void check_training(MatrixSize size, double offset, bool with_parameters, double tolerance) {
  CAPTURE(size.rows, size.cols, offset, with_parameters);
  const auto x = random_values<T>(size.rows * size.cols, 1, offset - 2, offset + 2);
  const auto gamma = random_values<T>(size.cols, 2), beta = random_values<T>(size.cols, 3);
  const auto old_mean = random_values<T>(size.cols, 4), old_var = random_values<T>(size.cols, 5, 1, 2);
  const DeviceArray<T> in(x), weight(gamma), bias(beta), running_mean(old_mean), running_var(old_var);
  const auto mean = DeviceArray<T>::unset(size.cols), rstd = DeviceArray<T>::unset(size.cols);
  const auto y = DeviceArray<T>::unset(in.size());
  const T* const g = with_parameters ? weight.data() : nullptr;
  const T* const b = with_parameters ? bias.data() : nullptr;
  REQUIRE(batch_norm_training<T>(nullptr, y.data(), mean.data(), rstd.data(), running_mean.data(), running_var.data(),
                                 in.data(), g, b, T(kMomentum), T(kEpsilon), size.rows, size.cols) == cudaSuccess);
  const auto expected = expected_statistics(x, size);
  const auto normal = expected_normal(x, expected.mean, expected.rstd, with_parameters ? gamma.data() : nullptr,
                                      with_parameters ? beta.data() : nullptr);
  require_same(in.to_host(), x);
  require_near(y.to_host(), normal, tolerance);
  require_near(mean.to_host(), expected.mean, kRounding<T>);
  require_near(rstd.to_host(), expected.rstd, tolerance);
  std::vector<double> new_mean(expected.mean), new_var(expected.mean);
  const auto rows = static_cast<double>(size.rows);
  for (std::size_t c = 0; c < new_mean.size(); ++c) {
    const double unbiased = size.rows > 1 ? expected.variance[c] * rows / (rows - 1) : 0;
    new_mean[c] = (1 - kMomentum) * old_mean[c] + kMomentum * expected.mean[c];
    new_var[c] = (1 - kMomentum) * old_var[c] + kMomentum * unbiased;
  }
  require_near(running_mean.to_host(), new_mean, kRounding<T>);
  require_near(running_var.to_host(), new_var, tolerance);
  T* const none = nullptr;
  REQUIRE(batch_norm_training<T>(nullptr, in.data(), mean.data(), rstd.data(), none, none, in.data(), g, b,
                                 T(kMomentum), T(kEpsilon), size.rows, size.cols) == cudaSuccess);
  require_near(in.to_host(), normal, tolerance);
}

// A few rows can be so close to each other that 1 / sqrt(variance) magnifies the rounding of x.
template <class T>
double tolerance_for(std::int64_t rows) {
  return (rows < 16 ? 1000 : 16) * kRounding<T>;
}

TEMPLATE_TEST_CASE("batch_norm_training agrees with long double at every size, in place too", "", float, double) {
  for (const auto size : matrix_sizes()) {
    if (size.rows > 0) check_training<TestType>(size, 0.5, true, tolerance_for<TestType>(size.rows));
  }
  check_training<TestType>({33, 70}, 0, false, tolerance_for<TestType>(33));
}

TEMPLATE_TEST_CASE("batch_norm_training keeps its digits under a large common offset", "", float, double) {
  const double offset = std::is_same_v<TestType, float> ? 1e5 : 1e12;
  for (const std::int64_t rows : {33, 1023, 20'000}) {
    check_training<TestType>({rows, 3}, offset, true, 16 * offset * std::numeric_limits<TestType>::epsilon());
  }
}

TEMPLATE_TEST_CASE("batch_norm_evaluation uses the running statistics, in place too", "", float, double) {
  for (const auto size : matrix_sizes()) {
    for (const bool with_parameters : {true, false}) {
      CAPTURE(size.rows, size.cols, with_parameters);
      const auto x = random_values<TestType>(size.rows * size.cols, 1), gamma = random_values<TestType>(size.cols, 2);
      const auto beta = random_values<TestType>(size.cols, 3), mean = random_values<TestType>(size.cols, 4);
      const auto variance = random_values<TestType>(size.cols, 5, 0.5, 2);
      const auto rstd = inverse_roots({variance.begin(), variance.end()}, TestType(kEpsilon));
      const auto expected = expected_normal(x, mean, rstd, with_parameters ? gamma.data() : nullptr,
                                            with_parameters ? beta.data() : nullptr);
      const DeviceArray<TestType> in(x), weight(gamma), bias(beta), running_mean(mean), running_var(variance);
      const auto y = DeviceArray<TestType>::unset(in.size());
      const TestType* const g = with_parameters ? weight.data() : nullptr;
      const TestType* const b = with_parameters ? bias.data() : nullptr;
      for (TestType* const out : {y.data(), in.data()}) {
        REQUIRE(batch_norm_evaluation<TestType>(nullptr, out, in.data(), running_mean.data(), running_var.data(), g, b,
                                                TestType(kEpsilon), size.rows, size.cols) == cudaSuccess);
      }
      require_near(y.to_host(), expected, 2 * kRounding<TestType>);
      require_near(in.to_host(), expected, 2 * kRounding<TestType>);
    }
  }
}

template <class T>
void check_backward(MatrixSize size, bool fixed, bool with_gamma) {
  CAPTURE(size.rows, size.cols, fixed, with_gamma);
  const auto x = random_values<T>(size.rows * size.cols, 1), dy = random_values<T>(size.rows * size.cols, 2);
  const auto gamma = random_values<T>(size.cols, 3), before = random_values<T>(size.cols, 4);
  auto statistics = expected_statistics(x, size);
  if (fixed) {
    statistics.mean.assign(size.cols, 0.25);
    statistics.variance.assign(size.cols, 2);
    statistics.rstd = inverse_roots(statistics.variance, T(kEpsilon));
  }
  const auto normal = expected_normal<T>(x, statistics.mean, statistics.rstd, nullptr, nullptr);
  auto expected = expected_backward(dy, normal, statistics.rstd, with_gamma ? gamma.data() : nullptr, size, fixed);
  const DeviceArray<T> weight(gamma), upstream(dy), in(x), mean(narrowed<T>(statistics.mean));
  const DeviceArray<T> spread(narrowed<T>(fixed ? statistics.variance : statistics.rstd));
  const auto backward = [&](T* dx, T* dgamma, T* dbeta, const T* gradient, const T* input, bool accumulate) {
    const T* const g = with_gamma ? weight.data() : nullptr;
    if (!fixed) {
      return batch_norm_backward<T>(nullptr, dx, dgamma, dbeta, gradient, input, mean.data(), spread.data(), g,
                                    accumulate, size.rows, size.cols);
    }
    return batch_norm_evaluation_backward<T>(nullptr, dx, dgamma, dbeta, gradient, input, mean.data(), spread.data(), g,
                                             T(kEpsilon), accumulate, size.rows, size.cols);
  };
  const double tolerance = (16 + static_cast<double>(size.rows) / 16) * kRounding<T>;
  const auto dx = DeviceArray<T>::unset(in.size());
  const auto dgamma = DeviceArray<T>::unset(size.cols), dbeta = DeviceArray<T>::unset(size.cols);
  REQUIRE(backward(dx.data(), dgamma.data(), dbeta.data(), upstream.data(), in.data(), false) == cudaSuccess);
  require_near(dx.to_host(), expected.dx, tolerance);
  require_near(dgamma.to_host(), expected.dgamma, tolerance);
  require_near(dbeta.to_host(), expected.dbeta, tolerance);
  for (std::size_t c = 0; c < before.size(); ++c) {
    expected.dgamma[c] += before[c];
    expected.dbeta[c] += before[c];
  }
  const DeviceArray<T> over_dy(dy), over_x(x), more_gamma(before), more_beta(before);
  REQUIRE(backward(over_dy.data(), more_gamma.data(), nullptr, over_dy.data(), in.data(), true) == cudaSuccess);
  require_near(over_dy.to_host(), expected.dx, tolerance);
  require_near(more_gamma.to_host(), expected.dgamma, tolerance);
  REQUIRE(backward(over_x.data(), nullptr, more_beta.data(), upstream.data(), over_x.data(), true) == cudaSuccess);
  require_near(over_x.to_host(), expected.dx, tolerance);
  require_near(more_beta.to_host(), expected.dbeta, tolerance);
}

TEMPLATE_TEST_CASE("the backwards of batch_norm agree with f64 at every size, over dy and x too", "", float, double) {
  for (const auto size : matrix_sizes()) {
    if (size.rows < 3) continue;
    for (const bool with_gamma : {true, false}) {
      check_backward<TestType>(size, false, with_gamma);
      check_backward<TestType>(size, true, with_gamma);
    }
  }
}

TEST_CASE("without rows the parameter gradients are zero, or stay as they are") {
  const auto dgamma = DeviceArray<float>::unset(3), dbeta = DeviceArray<float>::unset(3);
  const DeviceArray<float> mean(std::vector<float>{1, 2, 3});
  float* const none = nullptr;
  for (const bool accumulate : {false, true}) {
    REQUIRE(batch_norm_backward<float>(nullptr, none, dgamma.data(), dbeta.data(), none, none, mean.data(), mean.data(),
                                       none, accumulate, 0, 3) == cudaSuccess);
    require_same(dgamma.to_host(), {0, 0, 0});
    require_same(dbeta.to_host(), {0, 0, 0});
  }
}

struct Training {
  MatrixSize size;
  std::vector<double> dy;
  std::vector<double> mean = {}, rstd = {};

  double loss(const std::vector<double>& x, const std::vector<double>& gamma, const std::vector<double>& beta) {
    const DeviceArray<double> in(x), weight(gamma), bias(beta);
    const auto average = DeviceArray<double>::unset(size.cols), inverse = DeviceArray<double>::unset(size.cols);
    const auto y = DeviceArray<double>::unset(in.size());
    double* const none = nullptr;
    REQUIRE(batch_norm_training<double>(nullptr, y.data(), average.data(), inverse.data(), none, none, in.data(),
                                        weight.data(), bias.data(), 0.1, kEpsilon, size.rows,
                                        size.cols) == cudaSuccess);
    mean = average.to_host();
    rstd = inverse.to_host();
    return dot(y.to_host(), dy);
  }
};

TEST_CASE("batch_norm_backward agrees with finite differences in x, gamma and beta") {
  for (const auto size : {MatrixSize{5, 3}, MatrixSize{35, 2}}) {
    CAPTURE(size.rows);
    const auto x = random_values<double>(size.rows * size.cols, 1);
    const auto gamma = random_values<double>(size.cols, 3), beta = random_values<double>(size.cols, 4);
    Training training{size, random_values<double>(size.rows * size.cols, 2)};
    training.loss(x, gamma, beta);
    const DeviceArray<double> in(x), upstream(training.dy), weight(gamma), mean(training.mean), rstd(training.rstd);
    const auto dx = DeviceArray<double>::unset(in.size());
    const auto dgamma = DeviceArray<double>::unset(size.cols), dbeta = DeviceArray<double>::unset(size.cols);
    REQUIRE(batch_norm_backward<double>(nullptr, dx.data(), dgamma.data(), dbeta.data(), upstream.data(), in.data(),
                                        mean.data(), rstd.data(), weight.data(), false, size.rows,
                                        size.cols) == cudaSuccess);
    require_near(dx.to_host(), finite_differences(x, [&](auto& at) { return training.loss(at, gamma, beta); }),
                 kDifferenceTolerance);
    require_near(dgamma.to_host(), finite_differences(gamma, [&](auto& at) { return training.loss(x, at, beta); }),
                 kDifferenceTolerance);
    require_near(dbeta.to_host(), finite_differences(beta, [&](auto& at) { return training.loss(x, gamma, at); }),
                 kDifferenceTolerance);
  }
}

TEST_CASE("batch_norm refuses negative sizes") {
  float* const none = nullptr;
  CHECK(batch_norm_training<float>(nullptr, none, none, none, none, none, none, none, none, 0, 1, -1, 3) ==
        cudaErrorInvalidValue);
  CHECK(batch_norm_evaluation<float>(nullptr, none, none, none, none, none, none, 1, 3, -1) == cudaErrorInvalidValue);
  CHECK(batch_norm_backward<float>(nullptr, none, none, none, none, none, none, none, none, false, -1, 3) ==
        cudaErrorInvalidValue);
  CHECK(batch_norm_evaluation_backward<float>(nullptr, none, none, none, none, none, none, none, none, 1, false, -1,
                                              3) == cudaErrorInvalidValue);
}

}  // namespace
}  // namespace fanout::kernels
