// SPDX-License-Identifier: Apache-2.0
// A row vector added to every row of a matrix, with or without ReLU: the epilogue of a linear layer.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/wide.h"

namespace fanout::kernels {

/// y[r, c] = x[r, c] + bias[c], rounded once; y may be x where both have one type.
///   y, x  [rows, cols]  device pointers, contiguous
///   bias  [cols]        device pointer
/// T: float, double, or bf16 with x and bias in float. Queued on `stream`, does not wait. Returns the launch's error,
/// cudaErrorInvalidValue for a negative size.
template <class T>
[[nodiscard]] cudaError_t bias_add(cudaStream_t stream, T* y, const Wide<T>* x, const Wide<T>* bias, std::int64_t rows,
                                   std::int64_t cols);

/// y[r, c] = relu(x[r, c] + bias[c]), and everything else as bias_add. NaN stays NaN.
template <class T>
[[nodiscard]] cudaError_t bias_relu(cudaStream_t stream, T* y, const Wide<T>* x, const Wide<T>* bias, std::int64_t rows,
                                    std::int64_t cols);

}  // namespace fanout::kernels
