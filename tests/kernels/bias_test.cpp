// SPDX-License-Identifier: Apache-2.0
#include "kernels/bias.h"

#include <Eigen/Core>

#include "tests/kernels/device_array.h"
#include "tests/kernels/values.h"

namespace fanout::kernels {
namespace {

template <class T>
using Matrix = Eigen::Array<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class T>
std::vector<T> elements(const Matrix<T>& matrix) {
  return {matrix.data(), matrix.data() + matrix.size()};
}

/// launch(y, x, bias, rows, cols) must agree with `reference` of x plus bias, to the bit.
template <class T, class Launch, class Reference>
void check(Launch launch, Reference reference) {
  for (const std::int64_t rows : {0, 1, 3, 33}) {
    for (const std::int64_t cols : {0, 1, 10, 31, 32, 33, 1023, 1024, 1025}) {
      const auto x = random_values<T>(rows * cols, 1), bias = random_values<T>(cols, 2);
      Matrix<T> sum = Eigen::Map<const Matrix<T>>(x.data(), rows, cols);
      if (sum.size() > 0) sum.rowwise() += Eigen::Map<const Eigen::Array<T, 1, Eigen::Dynamic>>(bias.data(), cols);
      const Matrix<T> expected = reference(sum);
      for (const int shift : {0, 1, 2, 4}) {
        CAPTURE(rows, cols, shift);
        const auto y = DeviceArray<T>::unset(rows * cols, shift & 1);
        const DeviceArray<T> x_there(x, shift >> 1 & 1), bias_there(bias, shift >> 2);
        REQUIRE(launch(y.data(), x_there.data(), bias_there.data(), rows, cols) == cudaSuccess);
        require_same(y.to_host(), elements(expected));
        require_same(x_there.to_host(), x);
        REQUIRE(launch(x_there.data(), x_there.data(), bias_there.data(), rows, cols) == cudaSuccess);
        require_same(x_there.to_host(), elements(expected));
      }
    }
  }
  CHECK(launch(static_cast<T*>(nullptr), static_cast<const T*>(nullptr), static_cast<const T*>(nullptr), -1, 1) ==
        cudaErrorInvalidValue);
  CHECK(launch(static_cast<T*>(nullptr), static_cast<const T*>(nullptr), static_cast<const T*>(nullptr), 1, -1) ==
        cudaErrorInvalidValue);
}

}  // namespace

TEMPLATE_TEST_CASE("bias_add adds the bias to every row", "", float, double) {
  using T = TestType;
  check<T>(
      [](T* y, const T* x, const T* bias, auto rows, auto cols) { return bias_add(nullptr, y, x, bias, rows, cols); },
      [](const Matrix<T>& sum) -> Matrix<T> { return sum; });
}

TEMPLATE_TEST_CASE("bias_relu adds the bias and clips at 0", "", float, double) {
  using T = TestType;
  check<T>(
      [](T* y, const T* x, const T* bias, auto rows, auto cols) { return bias_relu(nullptr, y, x, bias, rows, cols); },
      [](const Matrix<T>& sum) -> Matrix<T> { return sum.max(T(0)); });
}

TEMPLATE_TEST_CASE("bias_relu keeps NaN", "", float, double) {
  const TestType nan = std::numeric_limits<TestType>::quiet_NaN();
  const TestType infinity = std::numeric_limits<TestType>::infinity();
  const DeviceArray<TestType> x({nan, 1, infinity, -infinity, infinity}), bias({1, nan, 1, 1, -infinity});
  const auto y = DeviceArray<TestType>::unset(5);
  REQUIRE(bias_relu(nullptr, y.data(), x.data(), bias.data(), 1, 5) == cudaSuccess);
  require_same(y.to_host(), {nan, nan, infinity, 0, nan});
}

}  // namespace fanout::kernels
