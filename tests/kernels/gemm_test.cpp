// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm.h"

#include <Eigen/Core>

#include "tests/kernels/matrix_check.h"

namespace fanout::kernels {
namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using MatrixMap = Eigen::Map<const Matrix<T>>;

template <class T>
void check(std::int64_t m, std::int64_t n, std::int64_t k, Transpose transpose_a, Transpose transpose_b, T alpha,
           T beta) {
  CAPTURE(m, n, k, transpose_a == Transpose::yes, transpose_b == Transpose::yes, alpha, beta);
  const auto a = small_integers<T>(m * k, 1), b = small_integers<T>(k * n, 2), before = small_integers<T>(m * n, 3);
  Matrix<T> expected = Matrix<T>::Zero(m, n);
  const Matrix<T> left = transpose_a == Transpose::no ? Matrix<T>(MatrixMap<T>(a.data(), m, k))
                                                      : Matrix<T>(MatrixMap<T>(a.data(), k, m).transpose());
  const Matrix<T> right = transpose_b == Transpose::no ? Matrix<T>(MatrixMap<T>(b.data(), k, n))
                                                       : Matrix<T>(MatrixMap<T>(b.data(), n, k).transpose());
  if (k > 0) expected = alpha * (left * right);
  if (beta != T(0)) expected += beta * MatrixMap<T>(before.data(), m, n);
  const DeviceArray<T> on_a(a), on_b(b);
  const auto c = beta == T(0) ? DeviceArray<T>::unset(m * n) : DeviceArray<T>(before);
  REQUIRE(gemm(nullptr, c.data(), on_a.data(), on_b.data(), transpose_a, transpose_b, m, n, k, alpha, beta) ==
          cudaSuccess);
  require_same(c.to_host(), std::vector<T>(expected.data(), expected.data() + expected.size()));
}

TEMPLATE_TEST_CASE("gemm multiplies whole numbers exactly, transposed or not, at the edges of its tiles", "", float,
                   double) {
  for (const auto transpose_a : {Transpose::no, Transpose::yes}) {
    for (const auto transpose_b : {Transpose::no, Transpose::yes}) {
      for (const std::int64_t m : {0, 1, 63, 65}) {
        for (const std::int64_t n : {0, 1, 64, 130}) {
          for (const std::int64_t k : {0, 1, 16, 33}) check<TestType>(m, n, k, transpose_a, transpose_b, 1, 0);
        }
      }
      check<TestType>(33, 31, 1025, transpose_a, transpose_b, 2, 0);
      check<TestType>(70, 5, 20, transpose_a, transpose_b, -1, 0.5);
      check<TestType>(5, 70, 0, transpose_a, transpose_b, -1, 3);
    }
  }
}

TEST_CASE("gemm refuses negative sizes") {
  float* const none = nullptr;
  const auto with_sizes = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    return gemm<float>(nullptr, none, none, none, Transpose::no, Transpose::no, m, n, k, 1, 0);
  };
  CHECK(with_sizes(-1, 1, 1) == cudaErrorInvalidValue);
  CHECK(with_sizes(1, -1, 1) == cudaErrorInvalidValue);
  CHECK(with_sizes(1, 1, -1) == cudaErrorInvalidValue);
}

}  // namespace
}  // namespace fanout::kernels
