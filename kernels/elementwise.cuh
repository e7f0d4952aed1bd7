// SPDX-License-Identifier: Apache-2.0
// One functor, many elements: the loop, the 16-byte packs and the launch that all elementwise kernels share.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "device_primitives.cuh"
#include "kernels/launch.cuh"

namespace fanout::kernels {

/// kCount neighbours that move as one load or store.
template <class T, int kCount>
struct alignas(kCount * sizeof(T)) Pack {
  T values[kCount];
};

/// How many elements of the widest of these types fill 16 bytes, the widest access of a GPU thread.
template <class... T>
inline constexpr int kPackElements = 16 / static_cast<int>(std::max({sizeof(T)...}));

/// True if every pointer may be read as an array of Pack<T, kCount>.
template <int kCount, class... T>
bool packable(const T*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % (kCount * sizeof(T)) == 0) && ...);
}

/// For kernels whose block takes a row and every gridDim.x-th after it, in `packs` packs of kCount elements: short rows
/// come several to a block, so that it has about 2048 elements to do, and its threads get a pack or four single
/// elements at a time.
template <int kCount>
LaunchShape shape_of_rows(std::int64_t rows, std::int64_t packs) {
  constexpr std::int64_t kElementsPerBlock = 2048, kMaxRowsPerBlock = 16, kMaxBlocks = 2147483647;
  const std::int64_t rows_per_block =
      std::clamp<std::int64_t>(kElementsPerBlock / (packs * kCount), 1, kMaxRowsPerBlock);
  const std::int64_t blocks = std::min((rows + rows_per_block - 1) / rows_per_block, kMaxBlocks);
  return row_shape(blocks, kCount > 1 ? packs * 4 : packs);  // row_shape gives a thread about four columns
}

template <class T, int kCount>
using PackOf = std::conditional_t<std::is_const_v<T>, const Pack<std::remove_const_t<T>, kCount>, Pack<T, kCount>>;

template <class T, int kCount>
__device__ inline void store_pack(Pack<T, kCount>& to, const Pack<T, kCount>& pack) {
  to = pack;
}
template <class T, int kCount>
__device__ inline void store_pack(const Pack<T, kCount>&, const Pack<T, kCount>&) {}

/// Calls f(x[i]...) for the kCount elements of pack `p` of every array. What f gets are registers: all arrays are read
/// before, and those behind pointers to non-const are written after, so arrays may be the same. Where f doesn't use an
/// old value it isn't read.
template <int kCount, class F, class... T>
__device__ inline void apply_to_pack(const F& f, std::int64_t p, T*... x) {
  const auto apply = [&f](auto&... memory) {
    const auto with_registers = [&](auto... pack) {
#pragma unroll  // a pack that is indexed by a loop is memory, and all of it is read
      for (int k = 0; k < kCount; ++k) f(pack.values[k]...);
      (store_pack(memory, pack), ...);
    };
    with_registers(memory...);
  };
  apply(reinterpret_cast<PackOf<T, kCount>*>(x)[p]...);
}

/// Calls f(x[i]...) for every i in [0, n), shared out among all threads of the grid in packs of kCount.
template <int kCount, class F, class... T>
__device__ inline void apply_to_elements(const F& f, std::int64_t n, T*... x) {
  for (auto p : grid_stride(n / kCount)) apply_to_pack<kCount>(f, p, x...);
  if constexpr (kCount > 1) {
    const std::int64_t packed = n / kCount * kCount;
    for (auto i : grid_stride(n - packed)) apply_to_pack<1>(f, packed + i, x...);
  }
}

// One thread, one pack (16 bytes of the widest type); the elements after the last whole pack go one to a thread. Moves
// every array once: inputs are read, outputs written, arrays that are both are read and written.
template <int kCount, class F, class... T>
__global__ void elementwise_kernel(F f, std::int64_t n, T*... x) {
  apply_to_elements<kCount>(f, n, x...);
}

/// Queues f(x[i]...) for every i in [0, n). f is a functor with a `const` call operator on references, and trivially
/// copyable. Uses packs where every pointer is aligned for them.
template <class F, class... T>
[[nodiscard]] cudaError_t elementwise(cudaStream_t stream, std::int64_t n, F f, T*... x) {
  if (n < 0) return cudaErrorInvalidValue;
  if (n == 0) return cudaSuccess;
  constexpr int kCount = kPackElements<T...>;
  if (packable<kCount>(x...)) {
    return launch<elementwise_kernel<kCount, F, T...>>(stream, elementwise_shape((n + kCount - 1) / kCount), f, n,
                                                       x...);
  }
  return launch<elementwise_kernel<1, F, T...>>(stream, elementwise_shape(n), f, n, x...);
}

}  // namespace fanout::kernels
