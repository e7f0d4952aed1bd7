// SPDX-License-Identifier: Apache-2.0
#include "kernels/transpose.h"

#include <Eigen/Core>

#include "tests/kernels/device_array.h"
#include "tests/kernels/values.h"

namespace fanout::kernels {

TEMPLATE_TEST_CASE("transpose swaps rows and columns at every edge of a tile", "", float, double) {
  using T = TestType;
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  for (const std::int64_t rows : {0, 1, 31, 32, 33, 70}) {
    for (const std::int64_t cols : {0, 1, 31, 32, 33, 1025}) {
      CAPTURE(rows, cols);
      const auto x = random_values<T>(rows * cols, 1);
      const Matrix transposed = Eigen::Map<const Matrix>(x.data(), rows, cols).transpose();
      const DeviceArray<T> x_there(x, 1);
      const auto y = DeviceArray<T>::unset(rows * cols, 1);
      REQUIRE(transpose(nullptr, y.data(), x_there.data(), rows, cols) == cudaSuccess);
      require_same(y.to_host(), std::vector<T>(transposed.data(), transposed.data() + transposed.size()));
      require_same(x_there.to_host(), x);
    }
  }
  CHECK(transpose<T>(nullptr, nullptr, nullptr, -1, 1) == cudaErrorInvalidValue);
  CHECK(transpose<T>(nullptr, nullptr, nullptr, 1, -1) == cudaErrorInvalidValue);
}

}  // namespace fanout::kernels
