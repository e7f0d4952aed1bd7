// SPDX-License-Identifier: Apache-2.0
// Dropout with a mask that is computed, never stored.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace fanout::kernels {

/// y[i] = x[i] / (1 - p) with probability 1 - p, else 0. The choice depends on seed, offset and i alone: element i uses
/// word i % 4 of Philox4x32-10 with counter offset + i / 4 and key `seed`. Hence the backward is the same call on dy
/// with the same seed and offset; a vector equals its parts run with offsets advanced by elements / 4, where parts have
/// multiples of 4 elements; and the next call needs offset + (n + 3) / 4 for fresh numbers.
///   y, x  [n]  device pointers of any alignment; y may be x, and may not overlap it otherwise
/// T: float, double. p in [0, 1]; at 1 everything is 0. A dropped NaN or infinity is 0 (torch: NaN).
/// Queued on `stream`, does not wait. Returns the launch's error, cudaErrorInvalidValue for n < 0 or p outside [0, 1].
/// Source: arXiv:1207.0580; the generator in philox.cuh.
template <class T>
[[nodiscard]] cudaError_t dropout(cudaStream_t stream, T* y, const T* x, T p, std::uint64_t seed, std::uint64_t offset,
                                  std::int64_t n);

}  // namespace fanout::kernels
