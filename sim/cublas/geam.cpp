// SPDX-License-Identifier: Apache-2.0
// cublasSgeam and cublasDgeam: the sum of two matrices, either of them transposed.
#include <algorithm>
#include <cstddef>

#include "sim/cublas/handle.h"

namespace sim::blas {
namespace {

template <class T>
struct Addend {
  cublasOperation_t operation;
  const T* scale;
  const T* data;
  int leading;

  Access access(int m, int n) const {
    return access_of_matrix(data, stored_rows(m, n), operation == CUBLAS_OP_N ? n : m, leading);
  }
  int stored_rows(int m, int n) const { return operation == CUBLAS_OP_N ? m : n; }
  bool is_valid(int m, int n) const {
    return operation >= CUBLAS_OP_N && operation <= CUBLAS_OP_C && leading >= std::max(1, stored_rows(m, n)) &&
           scale != nullptr;
  }
  T at(std::ptrdiff_t row, std::ptrdiff_t column) const {
    return operation == CUBLAS_OP_N ? data[row + column * leading] : data[column + row * leading];
  }
};

/// A factor of 0 leaves its matrix unread.
template <class T>
void add(int m, int n, T alpha, const Addend<T>& a, T beta, const Addend<T>& b, T* c, std::ptrdiff_t ldc) {
  for (int column = 0; column < n; ++column) {
    for (int row = 0; row < m; ++row) {
      const T left = alpha == T{0} ? T{0} : alpha * a.at(row, column);
      c[row + column * ldc] = beta == T{0} ? left : left + beta * b.at(row, column);
    }
  }
}

template <class T>
cublasStatus_t geam(const char* name, cublasHandle_t handle, int m, int n, const Addend<T>& a, const Addend<T>& b, T* c,
                    int ldc) {
  if (!is_live(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || !a.is_valid(m, n) || !b.is_valid(m, n) || ldc < std::max(1, m)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  const bool aliases_transposed =
      (c == a.data && a.operation != CUBLAS_OP_N) || (c == b.data && b.operation != CUBLAS_OP_N);
  const bool aliases_shifted = (c == a.data && ldc != a.leading) || (c == b.data && ldc != b.leading);
  if (c == nullptr || aliases_transposed || aliases_shifted) return CUBLAS_STATUS_INVALID_VALUE;
  const Scalar<T> alpha(*handle, a.scale);
  const Scalar<T> beta(*handle, b.scale);
  return submit(*handle, name,
                {a.access(m, n), b.access(m, n), access_of_matrix(c, m, n, ldc), alpha.access(), beta.access()},
                [=] { add(m, n, alpha.value(), a, beta.value(), b, c, ldc); });
}

}  // namespace
}  // namespace sim::blas

cublasStatus_t cublasSgeam(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                           const float* alpha, const float* A, int lda, const float* beta, const float* B, int ldb,
                           float* C, int ldc) {
  return sim::blas::geam<float>("cublasSgeam", handle, m, n, {transa, alpha, A, lda}, {transb, beta, B, ldb}, C, ldc);
}

cublasStatus_t cublasDgeam(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                           const double* alpha, const double* A, int lda, const double* beta, const double* B, int ldb,
                           double* C, int ldc) {
  return sim::blas::geam<double>("cublasDgeam", handle, m, n, {transa, alpha, A, lda}, {transb, beta, B, ldb}, C, ldc);
}
