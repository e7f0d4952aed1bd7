// SPDX-License-Identifier: Apache-2.0
// How threads share the columns of a row-major matrix: a thread keeps adjacent columns and walks down the rows, so that
// neighbouring threads (or the vector lanes of one) read neighbouring addresses.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device_primitives.cuh"

namespace fanout::kernels {

inline constexpr unsigned kTileColumns = 32;  // threads of a block along a row: one warp reads whole cache lines
inline constexpr unsigned kTileRows = 16;     // threads of a block down a column

/// The most columns that one thread keeps: 1 where they are registers; where a thread is a loop of vector instructions,
/// as many as are read in one go without leaving the first-level cache.
inline constexpr int kThreadColumns = kColumnsPerThread == 1 ? 1 : 8 * kColumnsPerThread;

/// Host: true where a block is best run as one thread.
inline bool blocks_are_single_threads() {
  return row_shape(1, 1).block.x == 1;
}

/// Columns of each thread in a tile that is `threads` wide.
__host__ __device__ constexpr int columns_each(std::int64_t cols, unsigned threads) {
  if (kThreadColumns == 1 || cols <= threads) return 1;
  const std::int64_t share = (cols + threads - 1) / threads;
  return share < kThreadColumns ? int(share) : kThreadColumns;
}

/// Host: kTileColumns x kTileRows threads a block; grid.x covers the columns, grid.y shares the rows where
/// `split_rows`.
inline LaunchShape column_shape(std::int64_t rows, std::int64_t cols, bool split_rows) {
  LaunchShape shape;
  if (!blocks_are_single_threads()) shape.block = dim3(kTileColumns, kTileRows);
  const std::int64_t width = std::int64_t(shape.block.x) * columns_each(cols, shape.block.x);
  shape.grid.x = unsigned((cols + width - 1) / width);
  if (split_rows && shape.block.x > 1) {
    shape.grid.y = unsigned(std::clamp<std::int64_t>(rows / (8 * kTileRows), 1, 1024));
  }
  return shape;
}

struct ColumnRun {
  std::int64_t first;
  int count;  // 0…each
  int each;   // of any thread: the same in the whole block
};

/// The columns of this thread in tile number `tile` of a matrix with `cols` columns.
__device__ inline ColumnRun thread_columns(std::int64_t tile, std::int64_t cols) {
  const int each = columns_each(cols, blockDim.x);
  const std::int64_t first = (tile * blockDim.x + threadIdx.x) * each;
  const std::int64_t left = cols - first;
  return {first, left < 0 ? 0 : left < each ? int(left) : each, each};
}

/// visit(0)…visit(count - 1).
template <class Visit>
__device__ void for_each_column(int count, Visit visit) {
  if constexpr (kThreadColumns == 1) {
    if (count > 0) visit(0);
  } else {
    for (int k = 0; k < count; ++k) visit(k);
  }
}

/// y[k] = map(k) for k in [0, count), in pieces that are read before they are written: y may be what map reads.
template <class T, class Map>
__device__ void map_columns(int count, T* y, Map map) {
  if constexpr (kThreadColumns == 1) {
    if (count > 0) y[0] = map(0);
  } else {
    constexpr int kPiece = 16;
    int k = 0;
    for (; k + kPiece <= count; k += kPiece) {
      T value[kPiece];  // between the loads and the stores, so that aliasing need not be ruled out
      for (int i = 0; i < kPiece; ++i) value[i] = map(k + i);
      for (int i = 0; i < kPiece; ++i) y[k + i] = value[i];
    }
    for (; k < count; ++k) y[k] = map(k);
  }
}

/// value[k] = 0 for the columns of any thread, so that sum_over_tile_rows finds no stranger.
template <class T>
__device__ void clear_columns(T (&value)[kThreadColumns], ColumnRun columns) {
  for (int k = 0; k < columns.each; ++k) value[k] = T(0);
}

/// Replaces value[k] in every thread by its sum over the threads of the same threadIdx.x, in the order of threadIdx.y.
/// All threads of the block must call it.
template <class T>
__device__ void sum_over_tile_rows(T (&value)[kThreadColumns], ColumnRun columns) {
  if (blockDim.y == 1) return;
  __shared__ T tile[kTileRows][kTileColumns];
  for (int k = 0; k < columns.each; ++k) {
    tile[threadIdx.y][threadIdx.x] = value[k];
    __syncthreads();
    T total = T(0);
    for (unsigned y = 0; y < blockDim.y; ++y) total += tile[y][threadIdx.x];
    value[k] = total;
    __syncthreads();
  }
}

/// y[k] = sum[k], or += where `accumulate`, by the first thread of each column; y may be null.
template <class T>
__device__ void store_column_sums(T* y, const T (&sum)[kThreadColumns], ColumnRun columns, bool accumulate) {
  if (y == nullptr || threadIdx.y != 0) return;
  T* const out = y + columns.first;
  for_each_column(columns.count, [&](int k) { out[k] = accumulate ? out[k] + sum[k] : sum[k]; });
}

}  // namespace fanout::kernels
