// SPDX-License-Identifier: Apache-2.0
// What needs no engine: products of a handful of elements, and C = beta C. The order of the sums depends on sizes only,
// never on the address of a buffer.
#include <algorithm>
#include <cstddef>

#include "sim/cublas/product.h"

namespace sim::blas {
namespace {

constexpr int kStripRows = 8;

/// Rows [row, row + rows) of op(A), as strips of fixed height with zeros below.
template <class T>
void pack_strip(const Product<T>& p, int row, int rows, T* packed) {
  const std::ptrdiff_t step_row = p.transpose_a ? p.lda : 1;
  const std::ptrdiff_t step_depth = p.transpose_a ? 1 : p.lda;
  for (int depth = 0; depth < p.k; ++depth) {
    const T* a = p.a + row * step_row + depth * step_depth;
    for (int i = 0; i < kStripRows; ++i) packed[depth * kStripRows + i] = i < rows ? a[i * step_row] : T{0};
  }
}

template <class T>
void multiply_strip(const Product<T>& p, const T* packed, int column, int row, int rows) {
  const std::ptrdiff_t step_depth = p.transpose_b ? p.ldb : 1;
  const T* b = p.b + static_cast<std::ptrdiff_t>(column) * (p.transpose_b ? 1 : p.ldb);
  T sums[kStripRows] = {};
  for (int depth = 0; depth < p.k; ++depth) {
    for (int i = 0; i < kStripRows; ++i) sums[i] += packed[depth * kStripRows + i] * b[depth * step_depth];
  }
  T* c = p.c + static_cast<std::ptrdiff_t>(column) * p.ldc + row;
  for (int i = 0; i < rows; ++i) c[i] = p.alpha * sums[i] + (p.beta == T{0} ? T{0} : p.beta * c[i]);
}

}  // namespace

template <class T>
void multiply_tiny(const Product<T>& p) {
  alignas(32) T packed[kTinySizes * kStripRows];
  for (int row = 0; row < p.m; row += kStripRows) {
    const int rows = std::min(kStripRows, p.m - row);
    pack_strip(p, row, rows, packed);
    for (int column = 0; column < p.n; ++column) multiply_strip(p, packed, column, row, rows);
  }
}

template <class T>
void scale(const Product<T>& p) {
  if (p.beta == T{1}) return;
  T* c = p.c;
  for (int column = 0; column < p.n; ++column, c += p.ldc) {
    if (p.beta == T{0}) {
      std::fill_n(c, p.m, T{0});
    } else {
      for (int row = 0; row < p.m; ++row) c[row] *= p.beta;
    }
  }
}

template void multiply_tiny(const Product<float>&);
template void multiply_tiny(const Product<double>&);
template void scale(const Product<float>&);
template void scale(const Product<double>&);

}  // namespace sim::blas
