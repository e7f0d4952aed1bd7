// SPDX-License-Identifier: Apache-2.0
// The backward of y = relu(x + bias), both gradients in one pass over memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/wide.h"

namespace fanout::kernels {

/// dx = dy where y > 0, else 0; dbias = the column sums of dx, or += them where `accumulate_bias`.
///   dx, dy, y  [rows, cols]  device pointers; dx may be dy or y
///   dbias      [cols]        device pointer or null; with no rows it is set to 0 (or left as it is)
/// Deterministic. T is float, double, or bf16 with dbias in float. Queued on `stream`, does not wait. Returns the
/// launch's error, or cudaErrorInvalidValue for a negative size.
template <class T>
[[nodiscard]] cudaError_t bias_relu_backward(cudaStream_t stream, T* dx, Wide<T>* dbias, const T* dy, const T* y,
                                             bool accumulate_bias, std::int64_t rows, std::int64_t cols);

}  // namespace fanout::kernels
