// SPDX-License-Identifier: Apache-2.0
// Matrix products by cuBLAS for row-major matrices.
#pragma once

#include <cstdint>

#include "runtime/device/device.h"

namespace fanout {

enum class Op : bool { none, transpose };

/// C = alpha op(A) op(B) + beta C, row-major and without gaps; queued on the compute stream of `device`, which must be
/// current.
///   C [m, n];  A [m, k], or [k, m] if transposed;  B [k, n], or [n, k] if transposed
/// beta 0 does not read C. T is float or double. Throws InvalidArgument where a size is beyond cuBLAS's 32-bit limit.
template <class T>
void gemm(Device device, Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, const T* a,
          const T* b, T beta, T* c);

}  // namespace fanout
