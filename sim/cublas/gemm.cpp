// SPDX-License-Identifier: Apache-2.0
// cublasSgemm, cublasDgemm and their strided batches: argument checks, and the choice of the engine by size.
#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "sim/cublas/gemm_sizes.h"
#include "sim/cublas/handle.h"
#include "sim/cublas/product.h"

namespace sim::blas {
namespace {

/// From this many multiply-adds on oneDNN beats Eigen: 32^3 in 1.2 us against 1.35, 64^3 in 5.6 against 8.5 (Zen 3).
constexpr double kLargeMultiplyAdds = 32.0 * 32.0 * 32.0;

template <class T>
struct Operand {
  T* data;
  int leading;
  long long stride;
};

template <class T>
struct GemmCall {
  const char* name;
  cublasOperation_t transa, transb;
  int m, n, k;
  const T* alpha;
  Operand<const T> a, b;
  const T* beta;
  Operand<T> c;
  int batch;
};

template <class T>
void multiply_batch(const GemmCall<T>& call, T alpha, T beta) {
  Product<T> product{call.transa != CUBLAS_OP_N,
                     call.transb != CUBLAS_OP_N,
                     call.m,
                     call.n,
                     call.k,
                     alpha,
                     call.a.data,
                     call.a.leading,
                     call.b.data,
                     call.b.leading,
                     beta,
                     call.c.data,
                     call.c.leading};
  for (int i = 0; i < call.batch; ++i) {
    multiply(product);
    product.a += call.a.stride;
    product.b += call.b.stride;
    product.c += call.c.stride;
  }
}

template <class T>
cublasStatus_t gemm(cublasHandle_t handle, const GemmCall<T>& call) {
  if (!is_live(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  const GemmSizes sizes{call.transa, call.transb,    call.m,         call.n,
                        call.k,      call.a.leading, call.b.leading, call.c.leading};
  if (!sizes.are_valid() || call.batch < 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (call.alpha == nullptr || call.beta == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (call.m == 0 || call.n == 0 || call.batch == 0) return CUBLAS_STATUS_SUCCESS;
  if (call.c.data == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (call.k > 0 && (call.a.data == nullptr || call.b.data == nullptr)) {
    report("%s: A or B is NULL; a GPU would read address 0", call.name);
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  const Scalar<T> alpha(*handle, call.alpha);
  const Scalar<T> beta(*handle, call.beta);
  const bool a_plain = call.transa == CUBLAS_OP_N, b_plain = call.transb == CUBLAS_OP_N;
  const int m = call.m, n = call.n, k = call.k;
  return submit(*handle, call.name,
                {access_of_matrix(call.a.data, a_plain ? m : k, a_plain ? k : m, call.a.leading),
                 access_of_matrix(call.b.data, b_plain ? k : n, b_plain ? n : k, call.b.leading),
                 access_of_matrix(call.c.data, m, n, call.c.leading), alpha.access(), beta.access()},
                [=] { multiply_batch(call, alpha.value(), beta.value()); });
}

}  // namespace

bool GemmSizes::are_valid() const {
  const auto is_operation = [](cublasOperation_t operation) {
    return operation >= CUBLAS_OP_N && operation <= CUBLAS_OP_C;
  };
  if (m < 0 || n < 0 || k < 0 || !is_operation(transa) || !is_operation(transb)) return false;
  const int a_rows = transa == CUBLAS_OP_N ? m : k, b_rows = transb == CUBLAS_OP_N ? k : n;
  return lda >= std::max(1, a_rows) && ldb >= std::max(1, b_rows) && ldc >= std::max(1, m);
}

template <class T>
void multiply(const Product<T>& product) {
  if (product.k == 0 || product.alpha == T{0}) return scale(product);
  if (product.m + product.n + product.k < kTinySizes) return multiply_tiny(product);
  if constexpr (std::is_same_v<T, float>) {
    const double multiply_adds = static_cast<double>(product.m) * product.n * product.k;
    if (multiply_adds >= kLargeMultiplyAdds && multiply_with_onednn(product)) return;
  }
  multiply_with_eigen(product);
}

template void multiply(const Product<float>&);
template void multiply(const Product<double>&);

}  // namespace sim::blas

using sim::blas::gemm;

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                           int k, const float* alpha, const float* A, int lda, const float* B, int ldb,
                           const float* beta, float* C, int ldc) {
  return gemm<float>(handle,
                     {"cublasSgemm", transa, transb, m, n, k, alpha, {A, lda, 0}, {B, ldb, 0}, beta, {C, ldc, 0}, 1});
}

cublasStatus_t cublasDgemm(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                           int k, const double* alpha, const double* A, int lda, const double* B, int ldb,
                           const double* beta, double* C, int ldc) {
  return gemm<double>(handle,
                      {"cublasDgemm", transa, transb, m, n, k, alpha, {A, lda, 0}, {B, ldb, 0}, beta, {C, ldc, 0}, 1});
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                         int m, int n, int k, const float* alpha, const float* A, int lda,
                                         long long int strideA, const float* B, int ldb, long long int strideB,
                                         const float* beta, float* C, int ldc, long long int strideC, int batchCount) {
  return gemm<float>(handle, {"cublasSgemmStridedBatched",
                              transa,
                              transb,
                              m,
                              n,
                              k,
                              alpha,
                              {A, lda, strideA},
                              {B, ldb, strideB},
                              beta,
                              {C, ldc, strideC},
                              batchCount});
}

cublasStatus_t cublasDgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                         int m, int n, int k, const double* alpha, const double* A, int lda,
                                         long long int strideA, const double* B, int ldb, long long int strideB,
                                         const double* beta, double* C, int ldc, long long int strideC,
                                         int batchCount) {
  return gemm<double>(handle, {"cublasDgemmStridedBatched",
                               transa,
                               transb,
                               m,
                               n,
                               k,
                               alpha,
                               {A, lda, strideA},
                               {B, ldb, strideB},
                               beta,
                               {C, ldc, strideC},
                               batchCount});
}
