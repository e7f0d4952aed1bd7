// SPDX-License-Identifier: Apache-2.0
// Mean squared error and its gradient.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace fanout::kernels {

/// Elements of workspace with which mean_squared_error of n elements spreads over more of the device; may be 0.
[[nodiscard]] std::int64_t mean_squared_error_workspace_elements(std::int64_t n);

/// loss = (sum of (x - target)^2) / n; NaN for n = 0, as torch.
///   loss       [1]  device pointer
///   workspace  [mean_squared_error_workspace_elements(n)] or null; overwritten
///   x, target  [n]  device pointers
/// Deterministic. T is float or double. Queued on `stream`, does not wait. Returns the launch's error, or
/// cudaErrorInvalidValue for a negative size.
template <class T>
[[nodiscard]] cudaError_t mean_squared_error(cudaStream_t stream, T* loss, T* workspace, const T* x, const T* target,
                                             std::int64_t n);

/// dx = 2 / n * (x - target) * upstream[0].
///   dx, x, target  [n]  device pointers; dx may be x or target
///   upstream       [1]  device pointer: the gradient of the loss
/// T is float or double. Queued on `stream`, does not wait. Returns the launch's error, or
/// cudaErrorInvalidValue for a negative size.
template <class T>
[[nodiscard]] cudaError_t mean_squared_error_backward(cudaStream_t stream, T* dx, const T* x, const T* target,
                                                      const T* upstream, std::int64_t n);

}  // namespace fanout::kernels
