// SPDX-License-Identifier: Apache-2.0
// What all gemm calls check first.
#pragma once

#include "cublas_v2.h"

namespace sim::blas {

struct GemmSizes {
  cublasOperation_t transa, transb;
  int m, n, k;
  int lda, ldb, ldc;

  /// Sizes from 0 on, known operations, and columns that do not overlap.
  bool are_valid() const;
};

}  // namespace sim::blas
