// SPDX-License-Identifier: Apache-2.0
// The transpose of a contiguous matrix.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace fanout::kernels {

/// y[c, r] = x[r, c]; y may not overlap x.
///   y  [cols, rows]  device pointer, contiguous
///   x  [rows, cols]  device pointer, contiguous
/// T: float, double. Queued on `stream`, does not wait. Returns the launch's error, cudaErrorInvalidValue for a
/// negative size.
template <class T>
[[nodiscard]] cudaError_t transpose(cudaStream_t stream, T* y, const T* x, std::int64_t rows, std::int64_t cols);

}  // namespace fanout::kernels
