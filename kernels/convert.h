// SPDX-License-Identifier: Apache-2.0
// From one element type to another, with a factor: bytes of an image to numbers in [0, 1].
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace fanout::kernels {

/// Writes To(x * scale) into y, elementwise. The product is formed in float where To is float or bf16 and From is
/// float, bf16 or uint8, else in double; it is rounded to To once, to the nearest, and truncated towards int64. y may
/// be x where both types are the same, and may not overlap it otherwise.
///   y, x  [n]  device pointers
/// To ← From: float, double and bf16 ← uint8, int64, float, double, bf16; int64 ← uint8.
/// Queued on `stream`, does not wait. Returns the launch's error, cudaErrorInvalidValue for n < 0.
template <class To, class From>
[[nodiscard]] cudaError_t convert(cudaStream_t stream, To* y, const From* x, double scale, std::int64_t n);

}  // namespace fanout::kernels
