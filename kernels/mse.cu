// SPDX-License-Identifier: Apache-2.0
#include "kernels/mse.h"

#include <algorithm>

#include "kernels/block_fold.cuh"
#include "kernels/launch.cuh"
#include "kernels/reduce.h"

namespace fanout::kernels {
namespace {

// One block, one segment of the elements. Moves 2 * n * sizeof(T) bytes.
template <class T>
__global__ void squared_difference_sums_kernel(T* sums, const T* x, const T* target, T scale,
                                               std::int64_t segment_length, std::int64_t n) {
  const std::int64_t begin = blockIdx.x * segment_length;
  const std::int64_t left = n - begin;
  const std::int64_t count = left < 0 ? 0 : left < segment_length ? left : segment_length;
  const T sum = block_sum<T>(count, [=](std::int64_t i) {
    const T difference = x[begin + i] - target[begin + i];
    return difference * difference;
  });
  if (threadIdx.x == 0) sums[blockIdx.x] = scale * sum;
}

// One thread, every so many elements. Moves 3 * n * sizeof(T) bytes.
template <class T>
__global__ void mean_squared_error_backward_kernel(T* dx, const T* x, const T* target, const T* upstream, T scale,
                                                   std::int64_t n) {
  const T factor = scale * upstream[0];
  for (auto i : grid_stride(n)) dx[i] = (x[i] - target[i]) * factor;
}

}  // namespace

std::int64_t mean_squared_error_workspace_elements(std::int64_t n) {
  return sum_workspace_elements(1, n, 1);
}

template <class T>
cudaError_t mean_squared_error(cudaStream_t stream, T* loss, T* workspace, const T* x, const T* target,
                               std::int64_t n) {
  if (n < 0) return cudaErrorInvalidValue;
  const T scale = T(1) / T(n);
  const std::int64_t segments = workspace == nullptr ? 0 : mean_squared_error_workspace_elements(n);
  if (segments == 0) {
    return launch<squared_difference_sums_kernel<T>>(stream, row_shape(1, n), loss, x, target, scale, n, n);
  }
  const std::int64_t segment_length = (n + segments - 1) / segments;
  const cudaError_t error = launch<squared_difference_sums_kernel<T>>(stream, row_shape(segments, segment_length),
                                                                      workspace, x, target, T(1), segment_length, n);
  if (error != cudaSuccess) return error;
  T* const no_workspace = nullptr;
  return sum_along(stream, loss, workspace, no_workspace, scale, false, 1, segments, 1);
}

template <class T>
cudaError_t mean_squared_error_backward(cudaStream_t stream, T* dx, const T* x, const T* target, const T* upstream,
                                        std::int64_t n) {
  if (n < 0) return cudaErrorInvalidValue;
  if (n == 0) return cudaSuccess;
  return launch<mean_squared_error_backward_kernel<T>>(stream, elementwise_shape(n), dx, x, target, upstream,
                                                       T(2) / T(n), n);
}

#define FANOUT_INSTANTIATE(T)                                                                      \
  template cudaError_t mean_squared_error(cudaStream_t, T*, T*, const T*, const T*, std::int64_t); \
  template cudaError_t mean_squared_error_backward(cudaStream_t, T*, const T*, const T*, const T*, std::int64_t);
FANOUT_INSTANTIATE(float)
FANOUT_INSTANTIATE(double)
#undef FANOUT_INSTANTIATE

}  // namespace fanout::kernels
