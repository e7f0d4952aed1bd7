// SPDX-License-Identifier: Apache-2.0
// How every kernel of this folder is launched.
#pragma once

#include <cuda_runtime.h>

#include "device_primitives.cuh"

namespace fanout::kernels {

/// Queues `Kernel` on `stream` in that shape and returns the launch's error. The shape must have at least one block, so
/// a launcher returns before this when there is nothing to do.
///   return launch<add_kernel<T>>(stream, elementwise_shape(n), y, a, b, n);
template <auto Kernel, class... Arguments>
[[nodiscard]] inline cudaError_t launch(cudaStream_t stream, const LaunchShape& shape, Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, Kernel, arguments...);
}

}  // namespace fanout::kernels
