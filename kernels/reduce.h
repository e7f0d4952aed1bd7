// SPDX-License-Identifier: Apache-2.0
// Sums along one dimension of a contiguous tensor.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace fanout::kernels {

/// Elements of workspace with which sum_along of these sizes spreads over more of the device; 0 where that does not
/// help.
[[nodiscard]] std::int64_t sum_workspace_elements(std::int64_t outer, std::int64_t length, std::int64_t inner);

/// y = scale * (sum of x along its middle dimension), or y += that where `accumulate`. All elements: outer = inner = 1;
/// the rows of a matrix: inner = 1; its columns: outer = 1. An empty sum is 0.
///   y          [outer, inner]          device pointer, not overlapping x
///   x          [outer, length, inner]  device pointer
///   workspace  [sum_workspace_elements(outer, length, inner)] or null; overwritten
/// The order of the additions depends on the sizes and on the presence of a workspace alone: results are reproducible.
/// T is float or double. Queued on `stream`, does not wait. Returns the launch's error,
/// or cudaErrorInvalidValue for a negative size; a fault inside the kernel shows at a later call.
template <class T>
[[nodiscard]] cudaError_t sum_along(cudaStream_t stream, T* y, const T* x, T* workspace, T scale, bool accumulate,
                                    std::int64_t outer, std::int64_t length, std::int64_t inner);

}  // namespace fanout::kernels
