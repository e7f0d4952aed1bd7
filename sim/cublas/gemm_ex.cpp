// SPDX-License-Identifier: Apache-2.0
// cublasGemmEx of bf16 matrices: the float product of their values, which is what tensor cores compute, rounded once.
#include <cuda_bf16.h>

#include <cstddef>
#include <vector>

#include "sim/cublas/gemm_sizes.h"
#include "sim/cublas/handle.h"
#include "sim/cublas/product.h"

namespace sim::blas {
namespace {

/// A column-major matrix where the program has it.
template <class T>
struct Stored {
  T* data;
  int rows, columns;
  std::ptrdiff_t leading;
};

struct GemmExCall {
  GemmSizes sizes;
  Stored<const __nv_bfloat16> a, b;
  void* c;
  cudaDataType c_type;
};

/// Into memory without gaps.
template <class T>
void widen(const Stored<T>& matrix, float* to) {
  for (int column = 0; column < matrix.columns; ++column) {
    const T* from = matrix.data + column * matrix.leading;
    float* line = to + static_cast<std::ptrdiff_t>(column) * matrix.rows;
    for (int row = 0; row < matrix.rows; ++row) line[row] = __bfloat162float(from[row]);
  }
}

void narrow(const float* from, const Stored<__nv_bfloat16>& matrix) {
  for (int column = 0; column < matrix.columns; ++column) {
    const float* line = from + static_cast<std::ptrdiff_t>(column) * matrix.rows;
    __nv_bfloat16* to = matrix.data + column * matrix.leading;
    for (int row = 0; row < matrix.rows; ++row) to[row] = __float2bfloat16(line[row]);
  }
}

std::size_t elements(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

void multiply_mixed(const GemmExCall& call, float alpha, float beta) {
  const auto& [transa, transb, m, n, k, lda, ldb, ldc] = call.sizes;
  const bool unread = k == 0 || alpha == 0;
  const bool rounds = call.c_type == CUDA_R_16BF;
  const std::size_t a_size = unread ? 0 : elements(m, k), b_size = unread ? 0 : elements(k, n);
  const std::size_t size = a_size + b_size + (rounds ? elements(m, n) : 0);
  static thread_local std::vector<float> scratch;  // kept: large blocks are slow to get
  if (scratch.size() < size) scratch.resize(size);
  float* const a = scratch.data();
  float* const b = a + a_size;
  if (!unread) {
    widen(call.a, a);
    widen(call.b, b);
  }
  Product<float> product{transa != CUBLAS_OP_N,
                         transb != CUBLAS_OP_N,
                         m,
                         n,
                         k,
                         alpha,
                         a,
                         call.a.rows,
                         b,
                         call.b.rows,
                         beta,
                         static_cast<float*>(call.c),
                         ldc};
  if (!rounds) return multiply(product);
  const Stored<__nv_bfloat16> c{static_cast<__nv_bfloat16*>(call.c), m, n, ldc};
  product.c = b + b_size;
  product.ldc = m;
  if (beta != 0) widen(c, product.c);
  multiply(product);
  narrow(product.c, c);
}

cublasStatus_t gemm_ex(cublasHandle_t handle, const GemmExCall& call, const float* alpha, const float* beta) {
  constexpr const char* kName = "cublasGemmEx";
  if (call.sizes.m == 0 || call.sizes.n == 0) return CUBLAS_STATUS_SUCCESS;
  if (call.c == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (call.sizes.k > 0 && (call.a.data == nullptr || call.b.data == nullptr)) {
    report("%s: A or B is NULL; a GPU would read address 0", kName);
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  const Access c =
      call.c_type == CUDA_R_32F
          ? access_of_matrix(static_cast<float*>(call.c), call.sizes.m, call.sizes.n, call.sizes.ldc)
          : access_of_matrix(static_cast<__nv_bfloat16*>(call.c), call.sizes.m, call.sizes.n, call.sizes.ldc);
  const Scalar<float> alpha_there(*handle, alpha), beta_there(*handle, beta);
  return submit(*handle, kName,
                {access_of_matrix(call.a.data, call.a.rows, call.a.columns, call.a.leading),
                 access_of_matrix(call.b.data, call.b.rows, call.b.columns, call.b.leading), c, alpha_there.access(),
                 beta_there.access()},
                [=] { multiply_mixed(call, alpha_there.value(), beta_there.value()); });
}

bool is_supported(cudaDataType a, cudaDataType b, cudaDataType c, cublasComputeType_t compute) {
  return a == CUDA_R_16BF && b == CUDA_R_16BF && (c == CUDA_R_16BF || c == CUDA_R_32F) &&
         (compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_PEDANTIC);
}

}  // namespace
}  // namespace sim::blas

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                            int k, const void* alpha, const void* A, cudaDataType Atype, int lda, const void* B,
                            cudaDataType Btype, int ldb, const void* beta, void* C, cudaDataType Ctype, int ldc,
                            cublasComputeType_t computeType, cublasGemmAlgo_t algo) {
  using namespace sim::blas;
  if (!is_live(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  const GemmSizes sizes{transa, transb, m, n, k, lda, ldb, ldc};
  if (!sizes.are_valid() || alpha == nullptr || beta == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_supported(Atype, Btype, Ctype, computeType)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (algo != CUBLAS_GEMM_DEFAULT && algo != CUBLAS_GEMM_DEFAULT_TENSOR_OP) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool a_plain = transa == CUBLAS_OP_N, b_plain = transb == CUBLAS_OP_N;
  return gemm_ex(handle,
                 {sizes,
                  {static_cast<const __nv_bfloat16*>(A), a_plain ? m : k, a_plain ? k : m, lda},
                  {static_cast<const __nv_bfloat16*>(B), b_plain ? k : n, b_plain ? n : k, ldb},
                  C,
                  Ctype},
                 static_cast<const float*>(alpha), static_cast<const float*>(beta));
}
