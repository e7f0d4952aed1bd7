// SPDX-License-Identifier: Apache-2.0
// Copies within a device: rows with a pitch, and any strided layout.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace fanout::kernels {

inline constexpr int kMaxRank = 6;

/// Where the elements of a strided tensor lie: element (i0, i1, ...) at i0 strides[0] + i1 strides[1] + ... elements.
struct StridedLayout {
  int rank = 0;                         // 0 (one element) to kMaxRank
  std::int64_t sizes[kMaxRank] = {};    // outermost first
  std::int64_t strides[kMaxRank] = {};  // in elements; 0 repeats, negative runs backwards from the pointer
};

/// Copies a matrix whose rows lie `pitch` elements apart on either side. y may not overlap x.
///   y  [rows, cols]  device pointer, y_pitch >= cols (where there is more than one row); what lies between the rows is
///   untouched x  [rows, cols]  device pointer, any x_pitch; 0 repeats one row
/// T: float, double, bf16, int64, uint8. Queued on `stream`, does not wait. Returns the launch's error,
/// cudaErrorInvalidValue for a negative size or a y_pitch that makes rows overlap.
template <class T>
[[nodiscard]] cudaError_t copy_2d(cudaStream_t stream, T* y, std::int64_t y_pitch, const T* x, std::int64_t x_pitch,
                                  std::int64_t rows, std::int64_t cols);

/// Gathers a strided tensor into a contiguous one (row-major, sizes of x_layout). y may not overlap x.
/// T: float, double, bf16, int64, uint8. Queued on `stream`, does not wait. Returns the launch's error,
/// cudaErrorInvalidValue for a rank out of range or a negative size.
template <class T>
[[nodiscard]] cudaError_t copy_strided(cudaStream_t stream, T* y, const T* x, const StridedLayout& x_layout);

/// Scatters a contiguous tensor (row-major, sizes of y_layout) into a strided one; the inverse of copy_strided.
/// Elements of y that the layout doesn't name are untouched; a layout that names one twice gives that one an
/// unspecified value. y may not overlap x. Types and errors as copy_strided.
template <class T>
[[nodiscard]] cudaError_t scatter_strided(cudaStream_t stream, T* y, const StridedLayout& y_layout, const T* x);

}  // namespace fanout::kernels
