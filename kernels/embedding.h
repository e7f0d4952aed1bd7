// SPDX-License-Identifier: Apache-2.0
// Rows taken from a table, and rows added to it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace fanout::kernels {

/// y[i] = table[indices[i]], row by row; NaN where the index is outside [0, rows): it cannot go unnoticed, and nothing
/// is read out of bounds.
///   y        [n, width]     device pointer, overlapping nothing
///   table    [rows, width]  device pointer
///   indices  [n]            device pointer
/// T is float or double. Queued on `stream`, does not wait. Returns the launch's error, or cudaErrorInvalidValue for a
/// negative size; a fault inside the kernel shows at a later call.
template <class T>
[[nodiscard]] cudaError_t take_rows(cudaStream_t stream, T* y, const T* table, const std::int64_t* indices,
                                    std::int64_t n, std::int64_t rows, std::int64_t width);

/// table[indices[i]] += scale * values[i] for i = 0, 1, …, n - 1. Additions to one row happen in this order on every
/// device and in every run: deterministic, without atomics. Rows with an index outside [0, rows) are left out.
///   table    [rows, width]  device pointer, read and written
///   indices  [n]            device pointer
///   values   [n, width]     device pointer
/// T is float or double. Queued on `stream`, does not wait. Returns the launch's error, or cudaErrorInvalidValue for a
/// negative size; a fault inside the kernel shows at a later call.
template <class T>
[[nodiscard]] cudaError_t add_rows(cudaStream_t stream, T* table, const std::int64_t* indices, const T* values, T scale,
                                   std::int64_t n, std::int64_t rows, std::int64_t width);

}  // namespace fanout::kernels
