// SPDX-License-Identifier: Apache-2.0
// What kernels of this project are built from, for GPUs: ranges of indices, reductions, launch shapes.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

/// Declares `T* name`, the block's dynamic shared memory.
#define FANOUT_DYNAMIC_SHARED(T, name)                                          \
  extern __shared__ __align__(128) unsigned char fanout_dynamic_shared_bytes[]; \
  T* const name = reinterpret_cast<T*>(fanout_dynamic_shared_bytes)

namespace fanout::kernels {

inline constexpr int kWarpSize = 32;

/// Columns that one thread of a column kernel holds, as `T sums[kColumnsPerThread]`.
inline constexpr int kColumnsPerThread = 1;

/// Grid, block and dynamic shared memory of a launch.
struct LaunchShape {
  dim3 grid{1};
  dim3 block{1};
  std::size_t shared_bytes = 0;
};

/// The indices that one thread visits: `for (auto i : grid_stride(n))`.
class IndexRange {
 public:
  class Iterator {
   public:
    __device__ Iterator(std::int64_t index, std::int64_t step) : index_(index), step_(step) {}
    __device__ std::int64_t operator*() const { return index_; }
    __device__ Iterator& operator++() {
      index_ += step_;
      return *this;
    }
    __device__ bool operator!=(const Iterator& end) const { return index_ < end.index_; }

   private:
    std::int64_t index_, step_;
  };

  __device__ IndexRange(std::int64_t begin, std::int64_t end, std::int64_t step)
      : begin_(begin), end_(end), step_(step) {}
  __device__ Iterator begin() const { return {begin_, step_}; }
  __device__ Iterator end() const { return {end_, step_}; }

 private:
  std::int64_t begin_, end_, step_;
};

/// All threads of a 1-D grid of 1-D blocks together visit [0, n), each index once.
inline __device__ IndexRange grid_stride(std::int64_t n) {
  const std::int64_t threads = blockDim.x;
  return {blockIdx.x * threads + threadIdx.x, n, gridDim.x * threads};
}

/// All threads of a 1-D block together visit [0, n), each index once.
inline __device__ IndexRange block_stride(std::int64_t n) {
  return {threadIdx.x, n, blockDim.x};
}

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

/// The greater; NaN if either is NaN.
struct Max {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a < b || b != b ? b : a;
  }
};

namespace detail {

// A shuffle of any plain type, word by word.
template <class T>
inline __device__ T shuffle_xor(unsigned mask, T value, int lane_mask) {
  if constexpr (std::is_arithmetic_v<T>) {
    return __shfl_xor_sync(mask, value, lane_mask);
  } else {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(unsigned) == 0);
    unsigned words[sizeof(T) / sizeof(unsigned)];
    std::memcpy(words, &value, sizeof value);
    for (unsigned& word : words) word = __shfl_xor_sync(mask, word, lane_mask);
    std::memcpy(&value, words, sizeof value);
    return value;
  }
}

// Lane 0 gets the reduction of the first `lanes` lanes; only those may call.
template <class T, class Op>
inline __device__ T reduce_to_first_lane(T value, Op op, T identity, int lanes) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const unsigned mask = lanes == kWarpSize ? 0xffffffffu : (1u << lanes) - 1;
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    const T other = shuffle_xor(mask, value, offset);
    value = op(value, lane + offset < lanes ? other : identity);
  }
  return value;
}

}  // namespace detail

/// Every lane of a full warp gets the reduction of the warp's values, always in the same order: lane l takes from lane
/// l ^ 16, then 8, 4, 2, 1. T is any plain type of whole words.
template <class T, class Op>
inline __device__ T warp_reduce(T value, Op op) {
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    value = op(value, detail::shuffle_xor(0xffffffffu, value, offset));
  }
  return value;
}

/// Every thread of a 1-D block gets the reduction of the block's values, always in the same order. All threads must
/// call it; it may be called again at once. A block of one thread gets its value back.
template <class T, class Op>
inline __device__ T block_reduce(T value, Op op, T identity) {
  if (blockDim.x == 1) return value;
  __shared__ __align__(16) unsigned char partial_bytes[kWarpSize * sizeof(T)];
  __shared__ __align__(16) unsigned char result_bytes[sizeof(T)];
  T* const partial = reinterpret_cast<T*>(partial_bytes);  // [warps]
  T* const result = reinterpret_cast<T*>(result_bytes);
  const int threads = static_cast<int>(blockDim.x);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int warps = (threads + kWarpSize - 1) / kWarpSize;
  const int lanes = min(kWarpSize, threads - warp * kWarpSize);  // of this warp
  value = detail::reduce_to_first_lane(value, op, identity, lanes);
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  if (warp == 0) {
    value = detail::reduce_to_first_lane(lane < warps ? partial[lane] : identity, op, identity, lanes);
    if (lane == 0) *result = value;
  }
  __syncthreads();
  return *result;
}

/// One thread an element, in blocks of 256; a large n is visited by several rounds of grid_stride.
inline LaunchShape elementwise_shape(std::int64_t n) {
  constexpr std::int64_t kThreads = 256, kMaxBlocks = 4096;
  const std::int64_t blocks = (n + kThreads - 1) / kThreads;
  return {dim3(static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks)), dim3(kThreads)};
}

/// One block a row, of 32 to 512 threads: about four columns a thread.
inline LaunchShape row_shape(std::int64_t rows, std::int64_t cols) {
  unsigned threads = 32;
  while (threads < 512 && threads * std::int64_t{4} < cols) threads *= 2;
  return {dim3(static_cast<unsigned>(rows)), dim3(threads)};
}

}  // namespace fanout::kernels
