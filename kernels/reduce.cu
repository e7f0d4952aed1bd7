// SPDX-License-Identifier: Apache-2.0
// A long sum is cut into segments, one block each, whose sums go to the workspace and are added by a second launch.
#include "kernels/reduce.h"

#include <algorithm>

#include "kernels/block_fold.cuh"
#include "kernels/column_walk.cuh"
#include "kernels/launch.cuh"

namespace fanout::kernels {
namespace {

constexpr std::int64_t kEnoughBlocks = 512;        // about four for each multiprocessor of a large GPU
constexpr std::int64_t kLeastRowSegment = 4096;    // elements worth a block of their own
constexpr std::int64_t kLeastColumnSegment = 128;  // rows of a tile worth a block of their own

struct SumSizes {
  std::int64_t outer, length, inner;
  std::int64_t segments;        // parts of `length`
  std::int64_t segment_length;  // the last may be short, even empty
};

__host__ __device__ std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// inner = 1. One block, one segment of one row; neighbouring threads read neighbouring elements.
// Moves outer * (length + segments) * sizeof(T) bytes.
template <class T>
__global__ void sum_rows_kernel(T* y, const T* x, T scale, bool accumulate, SumSizes sizes) {
  for (std::int64_t part = blockIdx.x; part < sizes.outer * sizes.segments; part += gridDim.x) {
    const std::int64_t row = part / sizes.segments, begin = part % sizes.segments * sizes.segment_length;
    const std::int64_t left = sizes.length - begin;
    const std::int64_t n = left < 0 ? 0 : left < sizes.segment_length ? left : sizes.segment_length;
    const T* const elements = x + row * sizes.length + begin;
    const T sum = block_sum<T>(n, [=](std::int64_t i) { return elements[i]; });
    if (threadIdx.x == 0) y[part] = accumulate ? y[part] + scale * sum : scale * sum;
  }
}

// One block, one segment of one tile of columns; thread (x, y) adds the rows y, y + 16, … of its columns, then the 16
// sums of a column are added through shared memory. Moves outer * inner * (length + segments) * sizeof(T) bytes.
template <class T>
__global__ void sum_columns_kernel(T* y, const T* x, T scale, bool accumulate, SumSizes sizes, std::int64_t tiles) {
  for (std::int64_t part = blockIdx.x; part < sizes.outer * sizes.segments * tiles; part += gridDim.x) {
    const std::int64_t slice = part / tiles;  // which output row of [outer * segments, inner]
    const ColumnRun columns = thread_columns(part % tiles, sizes.inner);
    const std::int64_t begin = slice % sizes.segments * sizes.segment_length;
    const std::int64_t left = sizes.length - begin;
    const std::int64_t end = begin + (left < sizes.segment_length ? left : sizes.segment_length);
    const T* const base = x + slice / sizes.segments * sizes.length * sizes.inner + columns.first;
    T sum[kThreadColumns];
    clear_columns(sum, columns);
    for (std::int64_t row = begin + threadIdx.y; row < end; row += blockDim.y) {
      const T* const elements = base + row * sizes.inner;
      for_each_column(columns.count, [&](int k) { sum[k] += elements[k]; });
    }
    sum_over_tile_rows(sum, columns);
    for_each_column(columns.count, [&](int k) { sum[k] *= scale; });
    store_column_sums(y + slice * sizes.inner, sum, columns, accumulate);
  }
}

std::int64_t column_tiles(std::int64_t inner) {
  return column_shape(1, inner, false).grid.x;
}

std::int64_t sum_segments(std::int64_t outer, std::int64_t length, std::int64_t inner) {
  if (blocks_are_single_threads() || outer == 0 || inner == 0) return 1;
  const std::int64_t blocks = inner == 1 ? outer : outer * column_tiles(inner);
  const std::int64_t longest = length / (inner == 1 ? kLeastRowSegment : kLeastColumnSegment);
  return std::max<std::int64_t>(1, std::min(kEnoughBlocks / blocks, longest));
}

template <class T>
cudaError_t sum_segmented(cudaStream_t stream, T* y, const T* x, T scale, bool accumulate, SumSizes sizes) {
  if (sizes.inner == 1) {
    const LaunchShape shape = row_loop_shape(sizes.outer * sizes.segments, sizes.segment_length);
    return launch<sum_rows_kernel<T>>(stream, shape, y, x, scale, accumulate, sizes);
  }
  LaunchShape shape = column_shape(sizes.length, sizes.inner, false);
  const std::int64_t tiles = shape.grid.x;
  if (shape.block.x > 1) {
    shape.grid.x = unsigned(std::min<std::int64_t>(sizes.outer * sizes.segments * tiles, 1 << 30));
  } else {
    shape.grid.x = 1;
  }
  return launch<sum_columns_kernel<T>>(stream, shape, y, x, scale, accumulate, sizes, tiles);
}

}  // namespace

std::int64_t sum_workspace_elements(std::int64_t outer, std::int64_t length, std::int64_t inner) {
  const std::int64_t segments = sum_segments(outer, length, inner);
  return segments == 1 ? 0 : outer * segments * inner;
}

template <class T>
cudaError_t sum_along(cudaStream_t stream, T* y, const T* x, T* workspace, T scale, bool accumulate, std::int64_t outer,
                      std::int64_t length, std::int64_t inner) {
  if (outer < 0 || length < 0 || inner < 0) return cudaErrorInvalidValue;
  if (outer == 0 || inner == 0) return cudaSuccess;
  const std::int64_t segments = workspace == nullptr ? 1 : sum_segments(outer, length, inner);
  if (segments > 1) {
    const SumSizes sizes{outer, length, inner, segments, ceil_divide(length, segments)};
    const cudaError_t error = sum_segmented(stream, workspace, x, T(1), false, sizes);
    if (error != cudaSuccess) return error;
    x = workspace;
    length = segments;
  }
  return sum_segmented(stream, y, x, scale, accumulate, {outer, length, inner, 1, length});
}

#define FANOUT_INSTANTIATE(T) \
  template cudaError_t sum_along(cudaStream_t, T*, const T*, T*, T, bool, std::int64_t, std::int64_t, std::int64_t);
FANOUT_INSTANTIATE(float)
FANOUT_INSTANTIATE(double)
#undef FANOUT_INSTANTIATE

}  // namespace fanout::kernels
