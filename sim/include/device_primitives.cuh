// SPDX-License-Identifier: Apache-2.0
// What kernels of this project are built from, for simulated GPUs: the contract is that of cuda/include/ of the same
// name. Launch shapes ask for one thread, whose plain loops the compiler vectorises; FANOUT_SIM_LANES=full asks for a
// GPU's.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

/// Declares `T* name`, the block's dynamic shared memory.
#define FANOUT_DYNAMIC_SHARED(T, name) T* const name = static_cast<T*>(sim::dynamic_shared())

namespace fanout::kernels {

inline constexpr int kWarpSize = sim::kWarpSize;

/// Columns that one thread of a column kernel holds, as `T sums[kColumnsPerThread]`: whole vectors.
inline constexpr int kColumnsPerThread = 64;

/// Grid, block and dynamic shared memory of a launch.
struct LaunchShape {
  dim3 grid{1};
  dim3 block{1};
  std::size_t shared_bytes = 0;
};

/// The indices that one thread visits, a contiguous run: `for (auto i : grid_stride(n))`.
class IndexRange {
 public:
  class Iterator {
   public:
    constexpr explicit Iterator(std::int64_t index) : index_(index) {}
    constexpr std::int64_t operator*() const { return index_; }
    constexpr Iterator& operator++() {
      ++index_;
      return *this;
    }
    constexpr bool operator!=(const Iterator& end) const { return index_ != end.index_; }

   private:
    std::int64_t index_;
  };

  /// Run number `part` of runs of `length` that cover [0, n).
  constexpr IndexRange(std::int64_t part, std::int64_t length, std::int64_t n)
      : begin_(part * length < n ? part * length : n), end_(n - begin_ < length ? n : begin_ + length) {}
  constexpr Iterator begin() const { return Iterator(begin_); }
  constexpr Iterator end() const { return Iterator(end_); }

 private:
  std::int64_t begin_, end_;
};

// Internal linkage, because threadIdx has it.
namespace {

/// All threads of a 1-D grid of 1-D blocks together visit [0, n), each index once.
[[maybe_unused]] __device__ inline IndexRange grid_stride(std::int64_t n) {
  constexpr std::int64_t kShortestRun = 256;  // or short loops would never leave their scalar ends
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  if (threads == 1) return {0, n, n};
  const std::int64_t share = (n + threads - 1) / threads;
  return {static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, share < kShortestRun ? kShortestRun : share,
          n};
}

/// All threads of a 1-D block together visit [0, n), each index once.
[[maybe_unused]] __device__ inline IndexRange block_stride(std::int64_t n) {
  const std::int64_t threads = blockDim.x;
  if (threads == 1) return {0, n, n};
  return {threadIdx.x, (n + threads - 1) / threads, n};
}

}  // namespace

struct Sum {
  template <class T>
  __device__ constexpr T operator()(T a, T b) const {
    return a + b;
  }
};

/// The greater; NaN if either is NaN.
struct Max {
  template <class T>
  __device__ constexpr T operator()(T a, T b) const {
    return a < b || b != b ? b : a;
  }
};

namespace detail {
namespace {

template <class T, class Op>
struct Part {
  T value;
  T identity;
  Op op;
};

// What the shuffles of the GPU's warp_reduce do, lane for lane.
template <class T, class Op>
void reduce_warp(void* const* operands, std::uint32_t lanes) {
  T values[kWarpSize], next[kWarpSize];
  const auto part = [operands](int lane) { return static_cast<Part<T, Op>*>(operands[lane]); };
  const int first = std::countr_zero(lanes);
  for (int lane = 0; lane < kWarpSize; ++lane) values[lane] = part((lanes >> lane & 1) != 0 ? lane : first)->value;
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    for (int lane = 0; lane < kWarpSize; ++lane) next[lane] = part(first)->op(values[lane], values[lane ^ offset]);
    for (int lane = 0; lane < kWarpSize; ++lane) values[lane] = next[lane];
  }
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    part(std::countr_zero(rest))->value = values[std::countr_zero(rest)];
  }
}

// The part of that tree which ends in lane 0; lanes from `lanes` on hold the identity.
template <class T, class Op>
T reduce_to_first_lane(T* values, int lanes, T identity, Op op) {
  for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
    for (int lane = 0; lane < offset && lane < lanes; ++lane) {
      values[lane] = op(values[lane], lane + offset < lanes ? values[lane + offset] : identity);
    }
  }
  return values[0];
}

template <class T, class Op>
void reduce_block(void* const* operands, unsigned block_threads) {
  const int threads = static_cast<int>(block_threads);
  const auto part = [operands](int thread) { return static_cast<Part<T, Op>*>(operands[thread]); };
  int any = 0;
  while (part(any) == nullptr) ++any;
  const Op op = part(any)->op;
  const T identity = part(any)->identity;
  T partial[kWarpSize], values[kWarpSize];
  const int warps = (threads + kWarpSize - 1) / kWarpSize;
  for (int warp = 0; warp < kWarpSize; ++warp) {
    const int begin = warp * kWarpSize;
    const int lanes = threads - begin < kWarpSize ? threads - begin : kWarpSize;
    partial[warp] = identity;
    if (warp >= warps) continue;
    for (int lane = 0; lane < lanes; ++lane) {
      values[lane] = part(begin + lane) == nullptr ? identity : part(begin + lane)->value;
    }
    partial[warp] = reduce_to_first_lane(values, lanes, identity, op);
  }
  const T result = reduce_to_first_lane(partial, threads < kWarpSize ? threads : kWarpSize, identity, op);
  for (int thread = 0; thread < threads; ++thread) {
    if (part(thread) != nullptr) part(thread)->value = result;
  }
}

}  // namespace
}  // namespace detail

namespace {

/// Every lane of a full warp gets the reduction of the warp's values, always in the same order: lane l takes from lane
/// l ^ 16, then 8, 4, 2, 1. A block of one thread gets its value back.
template <class T, class Op>
__device__ inline T warp_reduce(T value, Op op, sim::SourceLine at = sim::SourceLine::here()) {
  if (sim::block_threads() == 1) return value;
  detail::Part<T, Op> mine{value, value, op};
  sim::meet_warp(0xffffffffu, &mine, &detail::reduce_warp<T, Op>, {"warp_reduce", at});
  return mine.value;
}

/// Every thread of a 1-D block gets the reduction of the block's values, always in the same order. All threads must
/// call it; it may be called again at once. A block of one thread gets its value back.
template <class T, class Op>
__device__ inline T block_reduce(T value, Op op, T identity, sim::SourceLine at = sim::SourceLine::here()) {
  if (sim::block_threads() == 1) return value;
  detail::Part<T, Op> mine{value, identity, op};
  sim::meet_block(&mine, &detail::reduce_block<T, Op>, {"block_reduce", at});
  return mine.value;
}

}  // namespace

/// One thread for all of [0, n). With full lanes as on a GPU: blocks of 256, several rounds where n is large.
inline LaunchShape elementwise_shape(std::int64_t n) {
  if (!sim::full_lanes()) return {};
  constexpr std::int64_t kThreads = 256, kMaxBlocks = 4096;
  const std::int64_t blocks = (n + kThreads - 1) / kThreads;
  return {dim3(static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks)), dim3(kThreads)};
}

/// One block a row, of one thread. With full lanes as on a GPU: 32 to 512, about four columns a thread.
inline LaunchShape row_shape(std::int64_t rows, std::int64_t cols) {
  unsigned threads = sim::full_lanes() ? 32 : 1;
  while (sim::full_lanes() && threads < 512 && threads * std::int64_t{4} < cols) threads *= 2;
  return {dim3(static_cast<unsigned>(rows)), dim3(threads)};
}

}  // namespace fanout::kernels
