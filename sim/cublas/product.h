// SPDX-License-Identifier: Apache-2.0
// The engines below the gemm calls: one column-major product, already checked, on the calling thread.
#pragma once

namespace sim::blas {

/// C[m,n] = alpha op(A)[m,k] op(B)[k,n] + beta C, column-major. m, n > 0; beta 0 never reads C. The engines want k > 0
/// and alpha != 0 too.
template <class T>
struct Product {
  bool transpose_a;
  bool transpose_b;
  int m, n, k;
  T alpha;
  const T* a;
  int lda;
  const T* b;
  int ldb;
  T beta;
  T* c;
  int ldc;
};

/// By the engine that is fastest at the product's size.
template <class T>
void multiply(const Product<T>& product);

/// C = beta C; beta 0 writes zeros without reading.
template <class T>
void scale(const Product<T>& product);

/// Below this sum of m, n and k a product is a handful of elements.
inline constexpr int kTinySizes = 20;

/// A plain loop, for m + n + k < kTinySizes: there the preparations of the engines cost more than the product.
template <class T>
void multiply_tiny(const Product<T>& product);

template <class T>
void multiply_with_eigen(const Product<T>& product);

/// One OpenMP thread, whatever the caller's setting. False where the build has no oneDNN, or it failed: nothing is
/// written then.
bool multiply_with_onednn(const Product<float>& product);

}  // namespace sim::blas
