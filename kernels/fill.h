// SPDX-License-Identifier: Apache-2.0
// Constant values.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace fanout::kernels {

/// Writes `value` into every element of y.
///   y  [n]  device pointer
/// T: float, double, bf16, int64, uint8. Queued on `stream`, does not wait. Returns the launch's error,
/// cudaErrorInvalidValue for n < 0.
template <class T>
[[nodiscard]] cudaError_t fill(cudaStream_t stream, T* y, T value, std::int64_t n);

}  // namespace fanout::kernels
