// SPDX-License-Identifier: Apache-2.0
// How the threads of one block share a row: each takes kLanes adjacent elements at a time, and their results are folded
// in an order that depends on the sizes alone.
#pragma once

#include <cstdint>
#include <limits>

#include "device_primitives.cuh"

namespace fanout::kernels {

/// Adjacent elements that a thread takes at a time along a row: 1 where neighbouring threads must read neighbouring
/// addresses, a few vectors where a thread is a loop of vector instructions.
inline constexpr int kLanes = kColumnsPerThread < 32 ? kColumnsPerThread : 32;

template <class T>
inline constexpr T kInfinity = std::numeric_limits<T>::infinity();

/// Host: the launch for a kernel that loops `for (row = blockIdx.x; row < rows; row += gridDim.x)` with a block a row.
/// Blocks of one thread run one after another, so one of them that walks all rows saves the cost of starting the
/// others.
inline LaunchShape row_loop_shape(std::int64_t rows, std::int64_t cols) {
  LaunchShape shape = row_shape(rows < (1 << 30) ? rows : (1 << 30), cols);
  if (shape.block.x == 1) shape.grid.x = 1;
  return shape;
}

/// Folds partial[0…kWidth), kWidth a power of two, pairwise; leaves it changed.
template <int kWidth, class T, class Op>
__device__ inline T fold_pairwise(T* partial, Op op) {
  if constexpr (kWidth == 1) {
    return partial[0];
  } else {
    for (int i = 0; i < kWidth / 2; ++i) partial[i] = op(partial[i], partial[i + kWidth / 2]);
    return fold_pairwise<kWidth / 2>(partial, op);
  }
}

/// True in the thread of the block that block_map and block_map_fold let write element i.
__device__ inline bool owns_element(std::int64_t i) {
  return i / kLanes % blockDim.x == threadIdx.x;
}

/// op over load(0)…load(n - 1), in every thread of the block; identity when n is 0.
template <class T, class Op, class Load>
__device__ T block_fold(std::int64_t n, T identity, Op op, Load load) {
  T partial[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) partial[lane] = identity;
  const std::int64_t step = std::int64_t(blockDim.x) * kLanes;
  std::int64_t i = std::int64_t(threadIdx.x) * kLanes;
  for (; i + kLanes <= n; i += step) {
    for (int lane = 0; lane < kLanes; ++lane) partial[lane] = op(partial[lane], load(i + lane));
  }
  if (i < n) {
    for (int lane = 0; lane < kLanes; ++lane) {
      if (i + lane < n) partial[lane] = op(partial[lane], load(i + lane));
    }
  }
  return block_reduce(fold_pairwise<kLanes>(partial, op), op, identity);
}

/// The sum of load(0)…load(n - 1) for any n, in every thread of the block: in pieces, so that no chain of roundings is
/// long.
template <class T, class Load>
__device__ T block_sum(std::int64_t n, Load load) {
  constexpr std::int64_t kPiece = 1 << 14;
  T total = T(0);
  for (std::int64_t begin = 0; begin < n; begin += kPiece) {
    const std::int64_t count = n - begin < kPiece ? n - begin : kPiece;
    total += block_fold(count, T(0), Sum{}, [=](std::int64_t i) { return load(begin + i); });
  }
  return total;
}

/// y[i] = map(i) for the elements of a row. map(i) may read y[i]: it is read before it is written, by the same thread.
template <class T, class Map>
__device__ void block_map(std::int64_t n, T* y, Map map) {
  const std::int64_t step = std::int64_t(blockDim.x) * kLanes;
  std::int64_t i = std::int64_t(threadIdx.x) * kLanes;
  for (; i + kLanes <= n; i += step) {
    T value[kLanes];  // between the loads and the stores, so that aliasing need not be ruled out
    for (int lane = 0; lane < kLanes; ++lane) value[lane] = map(i + lane);
    for (int lane = 0; lane < kLanes; ++lane) y[i + lane] = value[lane];
  }
  for (int lane = 0; lane < kLanes && i + lane < n; ++lane) y[i + lane] = map(i + lane);
}

/// block_map, and the fold of what it wrote, in one pass.
template <class T, class Op, class Map>
__device__ T block_map_fold(std::int64_t n, T* y, T identity, Op op, Map map) {
  T partial[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) partial[lane] = identity;
  const std::int64_t step = std::int64_t(blockDim.x) * kLanes;
  std::int64_t i = std::int64_t(threadIdx.x) * kLanes;
  for (; i + kLanes <= n; i += step) {
    T value[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) value[lane] = map(i + lane);
    for (int lane = 0; lane < kLanes; ++lane) y[i + lane] = value[lane];
    for (int lane = 0; lane < kLanes; ++lane) partial[lane] = op(partial[lane], value[lane]);
  }
  for (int lane = 0; lane < kLanes && i + lane < n; ++lane) {
    const T value = map(i + lane);
    y[i + lane] = value;
    partial[lane] = op(partial[lane], value);
  }
  return block_reduce(fold_pairwise<kLanes>(partial, op), op, identity);
}

template <class T>
struct SumPair {
  T first, second;
};

/// The sums of first and second of load(0)…load(n - 1), in every thread of the block, in one pass.
template <class T, class Load>
__device__ SumPair<T> block_sum_pair(std::int64_t n, Load load) {
  T first[kLanes], second[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) first[lane] = second[lane] = T(0);
  const std::int64_t step = std::int64_t(blockDim.x) * kLanes;
  std::int64_t i = std::int64_t(threadIdx.x) * kLanes;
  for (; i + kLanes <= n; i += step) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const SumPair<T> value = load(i + lane);
      first[lane] += value.first;
      second[lane] += value.second;
    }
  }
  for (int lane = 0; lane < kLanes && i + lane < n; ++lane) {
    const SumPair<T> value = load(i + lane);
    first[lane] += value.first;
    second[lane] += value.second;
  }
  return {block_reduce(fold_pairwise<kLanes>(first, Sum{}), Sum{}, T(0)),
          block_reduce(fold_pairwise<kLanes>(second, Sum{}), Sum{}, T(0))};
}

}  // namespace fanout::kernels
