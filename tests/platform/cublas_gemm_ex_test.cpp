// SPDX-License-Identifier: Apache-2.0
// cublasGemmEx of bf16 matrices: exact products of integers, one rounding, and what it refuses.
#include <cublas_v2.h>
#include <cuda_bf16.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "tests/platform/blas_handle.h"
#include "tests/platform/device_array.h"

namespace {

using fanout::tests::BlasHandle;
using fanout::tests::DeviceArray;

template <class T>
constexpr cudaDataType kType = std::is_same_v<T, float> ? CUDA_R_32F : CUDA_R_16BF;

struct Case {
  cublasOperation_t transa, transb;
  int m, n, k;
  int gap;  // rows between the end of a column and the next
  float alpha, beta;
};

/// Column-major, with gaps.
template <class T>
struct Matrix {
  int rows, columns, leading;
  std::vector<T> elements;

  Matrix(int row_count, int column_count, int gap, int seed)
      : rows(row_count),
        columns(column_count),
        leading(std::max(1, row_count) + gap),
        elements(static_cast<std::size_t>(leading) * std::max(1, column_count), T(-77.0f)) {
    for (int column = 0; column < columns; ++column) {
      for (int row = 0; row < rows; ++row) at(row, column) = T(float((row * 7 + column * 5 + seed) % 9 - 4));
    }
  }
  T& at(int row, int column) { return elements[static_cast<std::size_t>(column) * leading + row]; }
};

template <class T>
std::vector<float> floats(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

template <class C>
cublasStatus_t gemm_ex(cublasHandle_t handle, const Case& t, const DeviceArray<__nv_bfloat16>& a, int lda,
                       const DeviceArray<__nv_bfloat16>& b, int ldb, const DeviceArray<C>& c, int ldc) {
  return cublasGemmEx(handle, t.transa, t.transb, t.m, t.n, t.k, &t.alpha, a.data(), CUDA_R_16BF, lda, b.data(),
                      CUDA_R_16BF, ldb, &t.beta, c.data(), kType<C>, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

/// Integers whose sums are exact in double; rounded to C once.
template <class C>
void require_right(BlasHandle& handle, const Case& t) {
  CAPTURE(int(t.transa), int(t.transb), t.m, t.n, t.k, t.gap, t.alpha, t.beta);
  const bool a_plain = t.transa == CUBLAS_OP_N, b_plain = t.transb == CUBLAS_OP_N;
  Matrix<__nv_bfloat16> a(a_plain ? t.m : t.k, a_plain ? t.k : t.m, t.gap, 1);
  Matrix<__nv_bfloat16> b(b_plain ? t.k : t.n, b_plain ? t.n : t.k, t.gap, 2);
  Matrix<C> start(t.m, t.n, t.gap, 3), expected = start;
  for (int column = 0; column < t.n; ++column) {
    for (int row = 0; row < t.m; ++row) {
      double sum = 0;
      for (int k = 0; k < t.k; ++k) {
        sum += static_cast<double>(float(a_plain ? a.at(row, k) : a.at(k, row))) *
               static_cast<double>(float(b_plain ? b.at(k, column) : b.at(column, k)));
      }
      expected.at(row, column) = C(t.alpha * sum + t.beta * static_cast<double>(float(start.at(row, column))));
      if (t.beta == 0) start.at(row, column) = C(std::numeric_limits<float>::quiet_NaN());
    }
  }
  const DeviceArray<__nv_bfloat16> device_a(a.elements), device_b(b.elements);
  const DeviceArray<C> device_c(start.elements);
  REQUIRE(gemm_ex(handle, t, device_a, a.leading, device_b, b.leading, device_c, start.leading) ==
          CUBLAS_STATUS_SUCCESS);
  REQUIRE(floats(device_c.read()) == floats(expected.elements));
}

}  // namespace

TEMPLATE_TEST_CASE("gemm of bf16 is exact for integers in every transpose, rounds once and leaves gaps alone", "",
                   float, __nv_bfloat16) {
  BlasHandle handle;
  for (const auto transa : {CUBLAS_OP_N, CUBLAS_OP_T}) {
    for (const auto transb : {CUBLAS_OP_N, CUBLAS_OP_T}) {
      for (const int m : {1, 31, 33}) {
        for (const int n : {1, 5, 33}) {
          for (const int k : {0, 1, 6, 33}) require_right<TestType>(handle, {transa, transb, m, n, k, 3, 2, 0});
        }
      }
      for (const float beta : {0.0f, 1.0f, 3.0f}) {
        require_right<TestType>(handle, {transa, transb, 65, 130, 97, 1, -2, beta});
        require_right<TestType>(handle, {transa, transb, 1, 200, 500, 0, 1, beta});
        require_right<TestType>(handle, {transa, transb, 7, 5, 3, 0, 0, beta});
      }
    }
  }
}

TEST_CASE("gemm of bf16 sums in float and rounds the result once") {
  BlasHandle handle;
  // 256 + 1 + 1 + 1: rounded on the way it would stay 256.
  const DeviceArray<__nv_bfloat16> a({256.0f, 1.0f, 1.0f, 1.0f}), b(std::vector<__nv_bfloat16>(4, 1.0f));
  const DeviceArray<__nv_bfloat16> narrow({0.0f});
  const DeviceArray<float> wide({0.0f});
  REQUIRE(gemm_ex(handle, {CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 4, 0, 1, 0}, a, 1, b, 4, narrow, 1) ==
          CUBLAS_STATUS_SUCCESS);
  CHECK(floats(narrow.read()) == std::vector<float>{260});
  REQUIRE(gemm_ex(handle, {CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 4, 0, 1, 0}, a, 1, b, 4, wide, 1) == CUBLAS_STATUS_SUCCESS);
  CHECK(wide.read() == std::vector<float>{259});
}

TEST_CASE("gemm of bf16 passes NaN and infinity on, and takes scalars from the device") {
  BlasHandle handle;
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const DeviceArray<__nv_bfloat16> a({infinity, nan, 1.0f}), b({1.0f}), c({0.0f, 0.0f, 0.0f});
  const DeviceArray<float> scalars({2, 0});
  REQUIRE(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 3, 1, 1, scalars.data(), a.data(), CUDA_R_16BF, 3, b.data(),
                       CUDA_R_16BF, 1, scalars.data() + 1, c.data(), CUDA_R_16BF, 3, CUBLAS_COMPUTE_32F,
                       CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
  const auto result = floats(c.read());
  CHECK(result[0] == infinity);
  CHECK(std::isnan(result[1]));
  CHECK(result[2] == 2);
}

TEST_CASE("gemm of bf16 refuses bad sizes with INVALID_VALUE and other types with NOT_SUPPORTED") {
  BlasHandle handle;
  const float one = 1;
  const DeviceArray<float> memory(std::vector<float>(16, 1));
  float* p = memory.data();
  const auto n = CUBLAS_OP_N;
  const auto code = [&](int m, int lda, cudaDataType a, cudaDataType b, cudaDataType c, cublasComputeType_t compute,
                        const float* alpha) {
    return cublasGemmEx(handle, n, n, m, 2, 2, alpha, p, a, lda, p, b, 2, &one, p + 8, c, 2, compute,
                        CUBLAS_GEMM_DEFAULT);
  };
  const auto bf16 = CUDA_R_16BF, f32 = CUDA_R_32F, f64 = CUDA_R_64F;
  CHECK(code(2, 2, bf16, bf16, bf16, CUBLAS_COMPUTE_32F, &one) == CUBLAS_STATUS_SUCCESS);
  CHECK(code(-1, 2, bf16, bf16, bf16, CUBLAS_COMPUTE_32F, &one) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(code(2, 1, bf16, bf16, bf16, CUBLAS_COMPUTE_32F, &one) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(code(2, 2, bf16, bf16, bf16, CUBLAS_COMPUTE_32F, nullptr) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(code(2, 2, bf16, bf16, f64, CUBLAS_COMPUTE_32F, &one) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(code(2, 2, bf16, f32, f32, CUBLAS_COMPUTE_32F, &one) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(code(2, 2, bf16, bf16, bf16, CUBLAS_COMPUTE_64F, &one) == CUBLAS_STATUS_NOT_SUPPORTED);
}
