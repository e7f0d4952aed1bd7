// SPDX-License-Identifier: Apache-2.0
// cuBLAS products against Eigen: every transpose, size edges, leading dimensions with gaps, alpha and beta.
#include <cublas_v2.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include <Eigen/Core>

#include "tests/platform/blas_handle.h"
#include "tests/platform/device_array.h"

namespace {

using fanout::tests::BlasHandle;
using fanout::tests::DeviceArray;

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
template <class T>
using View = Eigen::Map<const Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;

template <class T>
constexpr T kGap = T{-77};  // between the columns: nobody may read or write it

cublasStatus_t gemm(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
                    const float* alpha, const float* a, int lda, const float* b, int ldb, const float* beta, float* c,
                    int ldc) {
  return cublasSgemm(handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
cublasStatus_t gemm(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
                    const double* alpha, const double* a, int lda, const double* b, int ldb, const double* beta,
                    double* c, int ldc) {
  return cublasDgemm(handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
cublasStatus_t batched(cublasHandle_t handle, int m, int n, int k, const float* alpha, const float* a,
                       long long stride_a, const float* b, long long stride_b, const float* beta, float* c,
                       long long stride_c, int batch) {
  return cublasSgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, alpha, a, m, stride_a, b, k, stride_b,
                                   beta, c, m, stride_c, batch);
}
cublasStatus_t batched(cublasHandle_t handle, int m, int n, int k, const double* alpha, const double* a,
                       long long stride_a, const double* b, long long stride_b, const double* beta, double* c,
                       long long stride_c, int batch) {
  return cublasDgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, alpha, a, m, stride_a, b, k, stride_b,
                                   beta, c, m, stride_c, batch);
}

/// Small integers, so that every sum is exact in both types.
template <class T>
std::vector<T> integers(int rows, int columns, int leading, int seed) {
  std::vector<T> values(static_cast<std::size_t>(leading) * std::max(columns, 1), kGap<T>);
  for (int column = 0; column < columns; ++column) {
    for (int row = 0; row < rows; ++row) {
      values[static_cast<std::size_t>(column) * leading + row] = static_cast<T>((row * 7 + column * 5 + seed) % 9 - 4);
    }
  }
  return values;
}

template <class T>
struct Case {
  cublasOperation_t transa, transb;
  int m, n, k;
  int gap;  // rows between the end of a column and the next
  T alpha, beta;
};

template <class T>
Matrix<T> apply(cublasOperation_t operation, const View<T>& view) {
  return operation == CUBLAS_OP_N ? Matrix<T>(view) : Matrix<T>(view.transpose());
}

template <class T>
bool is_right(BlasHandle& handle, const Case<T>& t) {
  const int a_rows = t.transa == CUBLAS_OP_N ? t.m : t.k, a_columns = t.m + t.k - a_rows;
  const int b_rows = t.transb == CUBLAS_OP_N ? t.k : t.n, b_columns = t.k + t.n - b_rows;
  const int lda = std::max(1, a_rows) + t.gap, ldb = std::max(1, b_rows) + t.gap, ldc = std::max(1, t.m) + t.gap;
  const auto a = integers<T>(a_rows, a_columns, lda, 1);
  const auto b = integers<T>(b_rows, b_columns, ldb, 2);
  auto expected = integers<T>(t.m, t.n, ldc, 3);
  auto start = expected;
  if (t.beta == T{0}) {
    std::replace_if(
        start.begin(), start.end(), [](T x) { return x != kGap<T>; }, std::numeric_limits<T>::quiet_NaN());
  }
  Eigen::Map<Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>> c(expected.data(), t.m, t.n, Eigen::OuterStride<>(ldc));
  Matrix<T> product = Matrix<T>::Zero(t.m, t.n);
  if (t.k > 0) {
    product = apply<T>(t.transa, {a.data(), a_rows, a_columns, Eigen::OuterStride<>(lda)}) *
              apply<T>(t.transb, {b.data(), b_rows, b_columns, Eigen::OuterStride<>(ldb)});
  }
  c = (t.alpha * product + t.beta * c).eval();

  const DeviceArray<T> device_a(a), device_b(b), device_c(start);
  const cublasStatus_t status = gemm(handle, t.transa, t.transb, t.m, t.n, t.k, &t.alpha, device_a.data(), lda,
                                     device_b.data(), ldb, &t.beta, device_c.data(), ldc);
  return status == CUBLAS_STATUS_SUCCESS && device_c.read() == expected;
}

template <class T>
void require_right(BlasHandle& handle, const Case<T>& t) {
  CAPTURE(int(t.transa), int(t.transb), t.m, t.n, t.k, t.gap, t.alpha, t.beta);
  REQUIRE(is_right(handle, t));
}

}  // namespace

TEMPLATE_TEST_CASE("gemm agrees with Eigen for every transpose at sizes around a tile, and leaves gaps alone", "",
                   float, double) {
  BlasHandle handle;
  for (const auto transa : {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C}) {
    for (const auto transb : {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C}) {
      for (const int m : {1, 31, 32, 33}) {
        for (const int n : {1, 5, 32, 33}) {
          for (const int k : {0, 1, 6, 33}) require_right<TestType>(handle, {transa, transb, m, n, k, 3, 2, 0});
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("gemm agrees with Eigen for every transpose at sizes where engines change", "", float, double) {
  BlasHandle handle;
  for (const auto transa : {CUBLAS_OP_N, CUBLAS_OP_T}) {
    for (const auto transb : {CUBLAS_OP_N, CUBLAS_OP_T}) {
      for (const int beta : {0, 1, 3}) {
        require_right<TestType>(handle, {transa, transb, 63, 64, 64, 2, 1, TestType(beta)});
        require_right<TestType>(handle, {transa, transb, 64, 64, 64, 0, 1, TestType(beta)});
        require_right<TestType>(handle, {transa, transb, 65, 130, 97, 1, -2, TestType(beta)});
        require_right<TestType>(handle, {transa, transb, 1, 600, 500, 1, 1, TestType(beta)});
        require_right<TestType>(handle, {transa, transb, 600, 1, 500, 1, 1, TestType(beta)});
      }
    }
  }
}

TEMPLATE_TEST_CASE("gemm scales by every alpha and beta, and beta 0 never reads C", "", float, double) {
  BlasHandle handle;
  for (const int alpha : {0, 1, -3}) {
    for (const int beta : {0, 1, -2}) {
      for (const int size : {4, 33, 70}) {
        require_right<TestType>(handle,
                                {CUBLAS_OP_N, CUBLAS_OP_T, size, size + 1, size, 1, TestType(alpha), TestType(beta)});
      }
    }
  }
}

TEMPLATE_TEST_CASE("gemm with alpha 0 reads neither A nor B", "", float, double) {
  BlasHandle handle;
  const TestType nan = std::numeric_limits<TestType>::quiet_NaN(), alpha = 0, beta = 2;
  const DeviceArray<TestType> a(std::vector<TestType>(4, nan)), c(std::vector<TestType>(4, 5));
  REQUIRE(gemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &alpha, a.data(), 2, a.data(), 2, &beta, c.data(), 2) ==
          CUBLAS_STATUS_SUCCESS);
  CHECK(c.read() == std::vector<TestType>(4, 10));
}

TEMPLATE_TEST_CASE("gemm with m or n 0 succeeds and writes nothing", "", float, double) {
  BlasHandle handle;
  const TestType one = 1;
  const DeviceArray<TestType> a(std::vector<TestType>(4, 1)), c(std::vector<TestType>(4, 5));
  for (const auto& [m, n] : {std::pair{0, 2}, std::pair{2, 0}, std::pair{0, 0}}) {
    CHECK(gemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, 2, &one, a.data(), 2, a.data(), 2, &one, c.data(), 2) ==
          CUBLAS_STATUS_SUCCESS);
  }
  CHECK(c.read() == std::vector<TestType>(4, 5));
}

TEMPLATE_TEST_CASE("gemm reads alpha and beta from the device in device pointer mode", "", float, double) {
  BlasHandle handle;
  REQUIRE(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE) == CUBLAS_STATUS_SUCCESS);
  const DeviceArray<TestType> scalars({3, 10}), a({2}), b({5}), c({1});
  REQUIRE(gemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, scalars.data(), a.data(), 1, b.data(), 1, scalars.data() + 1,
               c.data(), 1) == CUBLAS_STATUS_SUCCESS);
  CHECK(c.read() == std::vector<TestType>{40});
}

TEMPLATE_TEST_CASE("strided batches multiply every pair, and stride 0 shares a matrix", "", float, double) {
  BlasHandle handle;
  const TestType one = 1, zero = 0;
  const DeviceArray<TestType> a({1, 2, 3, 4, -9, 5, 6, 7, 8, -9});  // two [2,2] with a gap of one
  const DeviceArray<TestType> b({1, 0, 0, 2});                      // one [2,2]
  const DeviceArray<TestType> c(std::vector<TestType>(11, -1));
  REQUIRE(batched(handle, 2, 2, 2, &one, a.data(), 5, b.data(), 0, &zero, c.data(), 6, 2) == CUBLAS_STATUS_SUCCESS);
  CHECK(c.read() == std::vector<TestType>{1, 2, 6, 8, -1, -1, 5, 6, 14, 16, -1});
  CHECK(batched(handle, 2, 2, 2, &one, a.data(), 5, b.data(), 0, &zero, c.data(), 6, 0) == CUBLAS_STATUS_SUCCESS);
  CHECK(batched(handle, 2, 2, 2, &one, a.data(), 5, b.data(), 0, &zero, c.data(), 6, -1) ==
        CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("gemm refuses bad sizes, operations, leading dimensions and scalars with INVALID_VALUE") {
  BlasHandle handle;
  const float one = 1;
  const DeviceArray<float> m(std::vector<float>(16, 1));
  float* p = m.data();
  const auto n = CUBLAS_OP_N, t = CUBLAS_OP_T;
  const auto wrong = static_cast<cublasOperation_t>(7);
  const auto code = [&](auto... arguments) { return cublasSgemm(handle, arguments...); };
  CHECK(code(n, n, -1, 2, 2, &one, p, 2, p, 2, &one, p, 2) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(code(n, n, 2, -1, 2, &one, p, 2, p, 2, &one, p, 2) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(code(n, n, 2, 2, -1, &one, p, 2, p, 2, &one, p, 2) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(code(wrong, n, 2, 2, 2, &one, p, 2, p, 2, &one, p, 2) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(code(n, wrong, 2, 2, 2, &one, p, 2, p, 2, &one, p, 2) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(code(n, n, 3, 2, 2, &one, p, 2, p, 2, &one, p, 3) == CUBLAS_STATUS_INVALID_VALUE);  // lda < m
  CHECK(code(t, n, 2, 2, 3, &one, p, 2, p, 3, &one, p, 2) == CUBLAS_STATUS_INVALID_VALUE);  // lda < k
  CHECK(code(n, n, 2, 2, 3, &one, p, 2, p, 2, &one, p, 2) == CUBLAS_STATUS_INVALID_VALUE);  // ldb < k
  CHECK(code(n, t, 2, 3, 2, &one, p, 2, p, 2, &one, p, 2) == CUBLAS_STATUS_INVALID_VALUE);  // ldb < n
  CHECK(code(n, n, 3, 2, 2, &one, p, 3, p, 2, &one, p, 2) == CUBLAS_STATUS_INVALID_VALUE);  // ldc < m
  CHECK(code(n, n, 2, 2, 2, &one, p, 2, p, 2, &one, static_cast<float*>(nullptr), 2) == CUBLAS_STATUS_INVALID_VALUE);
  const float* none = nullptr;
  CHECK(code(n, n, 2, 2, 2, none, p, 2, p, 2, &one, p, 2) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(code(n, n, 2, 2, 2, &one, p, 2, p, 2, none, p, 2) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasSgemm(nullptr, n, n, -1, 2, 2, &one, p, 2, p, 2, &one, p, 2) == CUBLAS_STATUS_NOT_INITIALIZED);
}

TEST_CASE("gemm gives the same bits from every thread and at every alignment") {
  constexpr int kSize = 96;
  std::vector<float> values(kSize * kSize + 3);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  const auto multiply = [&values](int size, int offset) {
    BlasHandle handle;
    const float one = 1, zero = 0;
    std::vector<float> shifted(values.size() + 4);
    std::copy(values.begin(), values.end(), shifted.begin() + offset);
    const DeviceArray<float> a(shifted), c(std::vector<float>(kSize * kSize + 4));
    cublasSgemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, size, size, size, &one, a.data() + offset, kSize, a.data() + offset,
                kSize, &zero, c.data() + offset, kSize);
    const auto result = c.read();
    return std::vector<float>(result.begin() + offset, result.begin() + offset + kSize * kSize);
  };
  for (const int size : {3, 40, 96}) {
    const auto expected = multiply(size, 0);
    CHECK(multiply(size, 1) == expected);
    CHECK(multiply(size, 3) == expected);
    std::vector<float> other;
    std::thread([&] { other = multiply(size, 0); }).join();
    CHECK(other == expected);
  }
}
