// SPDX-License-Identifier: Apache-2.0
// Matrix products by cuBLAS for row-major matrices.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <type_traits>

#include "runtime/device/device.h"

namespace fanout {

enum class Op : bool { none, transpose };

/// The type of alpha and beta.
template <class T>
using ScalarOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// C = alpha op(A) op(B) + beta C, row-major and without gaps; queued on the compute stream of `device`, which must be
/// current.
///   C [m, n];  A [m, k], or [k, m] if transposed;  B [k, n], or [n, k] if transposed
/// beta 0 does not read C. T is float, double or bf16; sums of bf16 are formed in float and rounded once. Throws
/// InvalidArgument where a size is beyond cuBLAS's 32-bit limit.
template <class T>
void gemm(Device device, Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, ScalarOf<T> alpha,
          const T* a, const T* b, ScalarOf<T> beta, T* c);
/// The same of bf16 matrices, with nothing rounded.
void gemm(Device device, Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
          const __nv_bfloat16* a, const __nv_bfloat16* b, float beta, float* c);

}  // namespace fanout
