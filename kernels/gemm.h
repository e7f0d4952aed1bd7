// SPDX-License-Identifier: Apache-2.0
// A matrix product to read and to measure against; the runtime multiplies with cuBLAS.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace fanout::kernels {

enum class Transpose { no, yes };

/// c = alpha * op(a) op(b) + beta * c, all row-major; op transposes where asked. With beta = 0, c is not read.
///   c  [m, n]                                       device pointer, not overlapping a or b
///   a  [m, k], or [k, m] where transpose_a is yes   device pointer
///   b  [k, n], or [n, k] where transpose_b is yes   device pointer
/// Each element is added up in the order of k. T is float or double. Queued on `stream`, does not wait. Returns the
/// launch's error, or cudaErrorInvalidValue for a negative size.
template <class T>
[[nodiscard]] cudaError_t gemm(cudaStream_t stream, T* c, const T* a, const T* b, Transpose transpose_a,
                               Transpose transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, T beta);

}  // namespace fanout::kernels
