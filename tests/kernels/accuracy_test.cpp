// SPDX-License-Identifier: Apache-2.0
#include "kernels/accuracy.h"

#include "tests/kernels/matrix_check.h"

namespace fanout::kernels {
namespace {

using Indices = std::vector<std::int64_t>;

template <class T>
Indices run_argmax(const std::vector<T>& x, MatrixSize size) {
  const DeviceArray<T> in(x);
  const auto y = DeviceArray<std::int64_t>::unset(size.rows);
  REQUIRE(argmax(nullptr, y.data(), in.data(), size.rows, size.cols) == cudaSuccess);
  return y.to_host();
}

TEMPLATE_TEST_CASE("argmax finds the first of several maxima at every size", "", float, double) {
  for (const auto size : matrix_sizes()) {
    if (size.cols == 0) continue;
    CAPTURE(size.rows, size.cols);
    const auto x = small_integers<TestType>(size.rows * size.cols, 1);  // full of ties
    Indices expected(static_cast<std::size_t>(size.rows));
    for (std::int64_t row = 0; row < size.rows; ++row) {
      const auto begin = x.begin() + row * size.cols;
      expected[row] = std::max_element(begin, begin + size.cols) - begin;
    }
    CHECK(run_argmax(x, size) == expected);
  }
}

TEMPLATE_TEST_CASE("argmax finds a maximum wherever it is", "", float, double) {
  const std::int64_t cols = 1025;
  std::vector<TestType> x(static_cast<std::size_t>(cols * cols), TestType(-1));
  Indices expected(static_cast<std::size_t>(cols));
  for (std::int64_t i = 0; i < cols; ++i) x[i * cols + i] = 5, expected[i] = i;
  CHECK(run_argmax(x, {cols, cols}) == expected);
}

TEMPLATE_TEST_CASE("argmax takes the first NaN for the maximum, and rows without a finite value as they are", "", float,
                   double) {
  const auto inf = std::numeric_limits<TestType>::infinity();
  const auto nan = std::numeric_limits<TestType>::quiet_NaN();
  for (const std::int64_t cols : {4, 200}) {
    const std::vector<std::vector<TestType>> rows = {
        {1, nan, inf, nan}, {-inf, -inf, -inf, -inf}, {nan, nan, nan, nan}, {-inf, -3, -inf, -inf}, {1, inf, 1, inf}};
    std::vector<TestType> x;
    for (auto row : rows) {
      row.resize(static_cast<std::size_t>(cols), row[2]);
      row.back() = row[3];
      x.insert(x.end(), row.begin(), row.end());
    }
    CHECK(run_argmax(x, {5, cols}) == Indices{1, 0, 0, 1, 1});
  }
}

TEST_CASE("argmax refuses rows without columns and negative sizes") {
  std::int64_t* const y = nullptr;
  const float* const x = nullptr;
  CHECK(argmax(nullptr, y, x, 0, 0) == cudaSuccess);
  CHECK(argmax(nullptr, y, x, 1, 0) == cudaErrorInvalidValue);
  CHECK(argmax(nullptr, y, x, -1, 2) == cudaErrorInvalidValue);
  CHECK(argmax(nullptr, y, x, 1, -2) == cudaErrorInvalidValue);
}

TEST_CASE("count_correct counts the equal pairs at every length") {
  for (const auto n : kLengths) {
    CAPTURE(n);
    Indices predictions(static_cast<std::size_t>(n)), labels(predictions.size());
    std::int64_t expected = 0;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      predictions[i] = static_cast<std::int64_t>(i * i % 7);
      labels[i] = static_cast<std::int64_t>(i % 7) + (i == 5 ? std::int64_t{1} << 32 : 0);
      expected += predictions[i] == labels[i] ? 1 : 0;
    }
    const DeviceArray<std::int64_t> a(predictions), b(labels);
    const auto count = DeviceArray<std::int64_t>::unset(1);
    REQUIRE(count_correct(nullptr, count.data(), a.data(), b.data(), n) == cudaSuccess);
    CHECK(count.to_host() == Indices{expected});
  }
  CHECK(count_correct(nullptr, nullptr, nullptr, nullptr, -1) == cudaErrorInvalidValue);
}

}  // namespace
}  // namespace fanout::kernels
