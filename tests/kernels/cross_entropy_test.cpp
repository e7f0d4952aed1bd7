// SPDX-License-Identifier: Apache-2.0
#include "kernels/cross_entropy.h"

#include <algorithm>

#include "tests/kernels/matrix_check.h"

namespace fanout::kernels {
namespace {

using Labels = std::vector<std::int64_t>;

struct Expected {
  double loss = 0;
  std::vector<double> row_losses, dlogits;
};

template <class T>
Expected expected_cross_entropy(const std::vector<T>& logits, const Labels& labels, double scale, MatrixSize size) {
  Expected expected{0, std::vector<double>(labels.size()), std::vector<double>(logits.size())};
  long double total = 0;
  for (std::int64_t row = 0; row < size.rows; ++row) {
    const T* const in = logits.data() + row * size.cols;
    const long double max = size.cols == 0 ? 0 : *std::max_element(in, in + size.cols);
    const bool valid = labels[row] >= 0 && labels[row] < size.cols;
    long double sum = 0;
    for (std::int64_t col = 0; col < size.cols; ++col) sum += std::exp(in[col] - max);
    const long double loss = valid ? std::log(sum) - (in[labels[row]] - max) : NAN;
    for (std::int64_t col = 0; col < size.cols; ++col) {
      const long double p = std::exp(in[col] - max) / sum - (col == labels[row] ? 1 : 0);
      expected.dlogits[row * size.cols + col] = static_cast<double>(valid ? scale * p : NAN);
    }
    expected.row_losses[row] = static_cast<double>(loss);
    total += loss;
  }
  expected.loss = static_cast<double>(scale * total);
  return expected;
}

Labels random_labels(MatrixSize size, unsigned seed) {
  std::mt19937 generator(seed);
  Labels labels(static_cast<std::size_t>(size.rows));
  for (auto& label : labels) label = size.cols == 0 ? 0 : static_cast<std::int64_t>(generator() % size.cols);
  return labels;
}

enum class Gradient { apart, in_place, none };

template <class T>
void check(const std::vector<T>& logits, const Labels& labels, double scale, MatrixSize size, double tolerance) {
  const auto expected = expected_cross_entropy(logits, labels, scale, size);
  const DeviceArray<std::int64_t> on_device(labels);
  for (const auto gradient : {Gradient::apart, Gradient::in_place, Gradient::none}) {
    CAPTURE(size.rows, size.cols, static_cast<int>(gradient));
    const DeviceArray<T> in(logits);
    const auto loss = DeviceArray<T>::unset(1), row_losses = DeviceArray<T>::unset(size.rows);
    const auto apart = DeviceArray<T>::unset(in.size());
    const auto& dlogits = gradient == Gradient::apart ? apart : in;
    REQUIRE(cross_entropy<T>(nullptr, loss.data(), row_losses.data(),
                             gradient == Gradient::none ? nullptr : dlogits.data(), in.data(), on_device.data(),
                             static_cast<T>(scale), size.rows, size.cols) == cudaSuccess);
    require_near(row_losses.to_host(), expected.row_losses, tolerance);
    require_near(loss.to_host(), std::vector<double>{expected.loss}, 4 * tolerance);
    if (gradient != Gradient::none) require_near(dlogits.to_host(), expected.dlogits, tolerance);
    if (gradient != Gradient::in_place) require_same(in.to_host(), logits);
  }
}

TEMPLATE_TEST_CASE("cross_entropy agrees with long double at every size and offset", "", float, double) {
  for (const auto size : matrix_sizes()) {
    if (size.cols == 0) continue;
    for (const double offset : {0., 1e4}) {
      const auto logits = random_values<TestType>(size.rows * size.cols, 1, offset - 5, offset + 5);
      check(logits, random_labels(size, 2), 1.0 / std::max<double>(1, size.rows), size, 4 * kRounding<TestType>);
    }
  }
}

TEMPLATE_TEST_CASE("a label outside the classes gives NaN in its row alone and in the loss", "", float, double) {
  for (const std::int64_t cols : {1, 10, 16, 17, 100}) {
    const MatrixSize size{40, cols};
    for (const std::int64_t label : {std::int64_t{-1}, cols, cols + 1, std::int64_t{-100}, INT64_MIN, INT64_MAX}) {
      CAPTURE(label);
      auto labels = random_labels(size, 1);
      labels[3] = label;
      labels[35] = label;
      check(random_values<TestType>(40 * cols, 2), labels, 0.25, size, 4 * kRounding<TestType>);
    }
  }
}

TEMPLATE_TEST_CASE("with no class at all every label is outside", "", float, double) {
  check<TestType>({}, {0, 1}, 1, {2, 0}, 0);
}

TEMPLATE_TEST_CASE("with no rows the loss is scale times nothing", "", float, double) {
  check<TestType>({}, {}, 1, {0, 10}, 0);
  check<TestType>({}, {}, std::numeric_limits<double>::infinity(), {0, 10}, 0);
}

TEMPLATE_TEST_CASE("extreme logits give exact, infinite or NaN losses and nothing else", "", float, double) {
  const auto inf = std::numeric_limits<TestType>::infinity();
  const auto nan = std::numeric_limits<TestType>::quiet_NaN();
  for (const std::int64_t cols : {4, 40}) {
    const std::vector<std::vector<TestType>> rows = {{1000, 0, 0, 0}, {0, 1000, 0, 0}, {-inf, 0, -inf, -inf},
                                                     {0, nan, 0, 0},  {0, inf, 0, 0},  {-inf, -inf, -inf, -inf}};
    std::vector<TestType> logits;
    for (auto row : rows) {
      row.resize(static_cast<std::size_t>(cols), row[2]);
      logits.insert(logits.end(), row.begin(), row.end());
    }
    const DeviceArray<TestType> in(logits);
    const DeviceArray<std::int64_t> labels(Labels(6, 0));
    const auto loss = DeviceArray<TestType>::unset(1), row_losses = DeviceArray<TestType>::unset(6);
    const auto dlogits = DeviceArray<TestType>::unset(in.size());
    REQUIRE(cross_entropy<TestType>(nullptr, loss.data(), row_losses.data(), dlogits.data(), in.data(), labels.data(),
                                    1, 6, cols) == cudaSuccess);
    require_same(row_losses.to_host(), {0, 1000, inf, nan, nan, nan});
    const auto gradient = dlogits.to_host();
    CHECK(gradient[0] == 0);
    CHECK(gradient[static_cast<std::size_t>(cols)] == -1);
    CHECK(gradient[static_cast<std::size_t>(cols) + 1] == 1);
    for (std::int64_t i = 3 * cols; i < 6 * cols; ++i) CHECK(std::isnan(gradient[static_cast<std::size_t>(i)]));
  }
}

TEST_CASE("the gradient of cross_entropy agrees with finite differences") {
  for (const auto size : {MatrixSize{3, 10}, MatrixSize{2, 35}}) {
    const auto logits = random_values<double>(size.rows * size.cols, 1);
    const DeviceArray<std::int64_t> labels(random_labels(size, 2));
    const auto loss = DeviceArray<double>::unset(1), row_losses = DeviceArray<double>::unset(size.rows);
    const auto dlogits = DeviceArray<double>::unset(size.rows * size.cols);
    const auto loss_at = [&](const std::vector<double>& at) {
      const DeviceArray<double> in(at);
      REQUIRE(cross_entropy<double>(nullptr, loss.data(), row_losses.data(), dlogits.data(), in.data(), labels.data(),
                                    0.5, size.rows, size.cols) == cudaSuccess);
      return loss.to_host()[0];
    };
    const auto expected = finite_differences(logits, loss_at);
    loss_at(logits);
    require_near(dlogits.to_host(), expected, kDifferenceTolerance);
  }
}

TEST_CASE("cross_entropy refuses negative sizes") {
  float* const none = nullptr;
  CHECK(cross_entropy<float>(nullptr, none, none, none, none, nullptr, 1, -1, 3) == cudaErrorInvalidValue);
  CHECK(cross_entropy<float>(nullptr, none, none, none, none, nullptr, 1, 3, -1) == cudaErrorInvalidValue);
}

}  // namespace
}  // namespace fanout::kernels
