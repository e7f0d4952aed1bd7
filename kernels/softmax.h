// SPDX-License-Identifier: Apache-2.0
// Softmax and its logarithm over the rows of a matrix, and their backwards.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

// All matrices are [rows, cols], device pointers, T float or double; the output may be any of the inputs. A row with a
// NaN, with +infinity or with nothing but -infinity gives NaN, as torch does. Exponents are taken relative to the row's
// maximum, so that no finite row overflows. Queued on `stream`, does not wait; returns the launch's error, or
// cudaErrorInvalidValue for a negative size.
// Deterministic.
namespace fanout::kernels {

/// y = exp(x - max) / sum of exp(x - max), row by row.
template <class T>
[[nodiscard]] cudaError_t softmax(cudaStream_t stream, T* y, const T* x, std::int64_t rows, std::int64_t cols);

/// dx = y * (dy - sum of dy * y), where y is what softmax gave.
template <class T>
[[nodiscard]] cudaError_t softmax_backward(cudaStream_t stream, T* dx, const T* dy, const T* y, std::int64_t rows,
                                           std::int64_t cols);

/// y = (x - max) - log(sum of exp(x - max)), row by row.
template <class T>
[[nodiscard]] cudaError_t log_softmax(cudaStream_t stream, T* y, const T* x, std::int64_t rows, std::int64_t cols);

/// dx = dy - exp(y) * sum of dy, where y is what log_softmax gave.
template <class T>
[[nodiscard]] cudaError_t log_softmax_backward(cudaStream_t stream, T* dx, const T* dy, const T* y, std::int64_t rows,
                                               std::int64_t cols);

}  // namespace fanout::kernels
