// SPDX-License-Identifier: Apache-2.0
// What a classifier predicts, and how often it is right.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace fanout::kernels {

/// y[r] = the column of the first maximum of row r; a NaN counts as the maximum, as in torch.
///   y  [rows]        device pointer
///   x  [rows, cols]  device pointer
/// Rows without columns have no maximum: cudaErrorInvalidValue. T is float or double. Queued on `stream`, does not
/// wait.
template <class T>
[[nodiscard]] cudaError_t argmax(cudaStream_t stream, std::int64_t* y, const T* x, std::int64_t rows,
                                 std::int64_t cols);

/// count = how many of predictions[r] equal labels[r]; 0 with no rows.
///   count                [1]     device pointer
///   predictions, labels  [rows]  device pointers
/// Queued on `stream`, does not wait. Returns the launch's error, or
/// cudaErrorInvalidValue for a negative size.
[[nodiscard]] cudaError_t count_correct(cudaStream_t stream, std::int64_t* count, const std::int64_t* predictions,
                                        const std::int64_t* labels, std::int64_t rows);

}  // namespace fanout::kernels
