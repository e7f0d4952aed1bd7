// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/blas.h"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

#include "runtime/device/context.h"
#include "runtime/device/error.h"

namespace fanout {
namespace {

cublasStatus_t call(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                    const float* alpha, const float* a, int lda, const float* b, int ldb, const float* beta, float* c,
                    int ldc) {
  return cublasSgemm(handle, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
cublasStatus_t call(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                    const double* alpha, const double* a, int lda, const double* b, int ldb, const double* beta,
                    double* c, int ldc) {
  return cublasDgemm(handle, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
template <class Result>
cublasStatus_t call(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                    const float* alpha, const __nv_bfloat16* a, int lda, const __nv_bfloat16* b, int ldb,
                    const float* beta, Result* c, int ldc) {
  constexpr cudaDataType kResult = std::is_same_v<Result, float> ? CUDA_R_32F : CUDA_R_16BF;
  return cublasGemmEx(handle, op_a, op_b, m, n, k, alpha, a, CUDA_R_16BF, lda, b, CUDA_R_16BF, ldb, beta, c, kResult,
                      ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

// cuBLAS is column-major: a row-major matrix is its transpose there, so C^T = op(B)^T op(A)^T with A and B swapped.
template <class T, class Result>
void multiply(Device device, Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, ScalarOf<T> alpha,
              const T* a, const T* b, ScalarOf<T> beta, Result* c) {
  if (std::max({m, n, k}) > std::numeric_limits<int>::max()) {
    throw InvalidArgument("gemm: a dimension is above 2^31 - 1, the limit of cuBLAS's 32-bit interface");
  }
  const auto [im, in, ik] = std::array{static_cast<int>(m), static_cast<int>(n), static_cast<int>(k)};
  const cublasOperation_t first = op_b == Op::transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = op_a == Op::transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int ldb = std::max(1, op_b == Op::transpose ? ik : in);
  const int lda = std::max(1, op_a == Op::transpose ? im : ik);
  FANOUT_CHECK(
      call(context(device).blas(), first, second, in, im, ik, &alpha, b, ldb, a, lda, &beta, c, std::max(1, in)));
}

}  // namespace

template <class T>
void gemm(Device device, Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, ScalarOf<T> alpha,
          const T* a, const T* b, ScalarOf<T> beta, T* c) {
  multiply(device, op_a, op_b, m, n, k, alpha, a, b, beta, c);
}

void gemm(Device device, Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
          const __nv_bfloat16* a, const __nv_bfloat16* b, float beta, float* c) {
  multiply(device, op_a, op_b, m, n, k, alpha, a, b, beta, c);
}

#define FANOUT_INSTANTIATE(T)                                                                                   \
  template void gemm(Device, Op, Op, std::int64_t, std::int64_t, std::int64_t, ScalarOf<T>, const T*, const T*, \
                     ScalarOf<T>, T*)
FANOUT_INSTANTIATE(float);
FANOUT_INSTANTIATE(double);
FANOUT_INSTANTIATE(__nv_bfloat16);
#undef FANOUT_INSTANTIATE

}  // namespace fanout
