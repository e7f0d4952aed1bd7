// SPDX-License-Identifier: Apache-2.0
// Rows by number. Taking them moves n (2 width sizeof(T) + 8) bytes, adding them n (3 width sizeof(T) + 8) and reads
// the indices again for every block, from cache.
#include "kernels/embedding.h"

#include <limits>

#include "kernels/block_fold.cuh"
#include "kernels/elementwise.cuh"
#include "kernels/launch.cuh"

namespace fanout::kernels {
namespace {

// One block, one row (and every gridDim.x-th after it), its threads side by side along it. E is T or a pack of it.
template <class E>
__global__ void take_rows_kernel(E* y, const E* table, const std::int64_t* indices, E none, std::int64_t n,
                                 std::int64_t rows, std::int64_t width) {
  for (std::int64_t i = blockIdx.x; i < n; i += gridDim.x) {
    const std::int64_t row = indices[i];
    E* const to = y + i * width;
    if (row >= 0 && row < rows) {
      const E* const from = table + row * width;
      for (auto c : block_stride(width)) to[c] = from[c];
    } else {
      for (auto c : block_stride(width)) to[c] = none;
    }
  }
}

template <class E>
cudaError_t take(cudaStream_t stream, E* y, const E* table, const std::int64_t* indices, const E& none, std::int64_t n,
                 std::int64_t rows, std::int64_t width) {
  return launch<take_rows_kernel<E>>(stream, row_loop_shape(n, width), y, table, indices, none, n, rows, width);
}

// One block adds to the table's rows blockIdx.x, blockIdx.x + gridDim.x, …: it looks at all indices in order and takes
// those of its rows, so that a row belongs to one block and, along the row, an element to one thread.
template <class T>
__global__ void add_rows_kernel(T* table, const std::int64_t* indices, const T* values, T scale, std::int64_t n,
                                std::int64_t rows, std::int64_t width) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t row = indices[i];
    if (row < 0 || row >= rows || row % gridDim.x != blockIdx.x) continue;
    T* const to = table + row * width;
    const T* const from = values + i * width;
    for (auto c : block_stride(width)) to[c] += scale * from[c];
  }
}

}  // namespace

template <class T>
cudaError_t take_rows(cudaStream_t stream, T* y, const T* table, const std::int64_t* indices, std::int64_t n,
                      std::int64_t rows, std::int64_t width) {
  if (n < 0 || rows < 0 || width < 0) return cudaErrorInvalidValue;
  if (n == 0 || width == 0) return cudaSuccess;
  constexpr int kCount = kPackElements<T>;
  constexpr T kNone = std::numeric_limits<T>::quiet_NaN();
  if (width % kCount != 0 || !packable<kCount>(y, table)) return take(stream, y, table, indices, kNone, n, rows, width);
  using P = Pack<T, kCount>;
  P none;
  for (T& value : none.values) value = kNone;
  return take(stream, reinterpret_cast<P*>(y), reinterpret_cast<const P*>(table), indices, none, n, rows,
              width / kCount);
}

template <class T>
cudaError_t add_rows(cudaStream_t stream, T* table, const std::int64_t* indices, const T* values, T scale,
                     std::int64_t n, std::int64_t rows, std::int64_t width) {
  if (n < 0 || rows < 0 || width < 0) return cudaErrorInvalidValue;
  if (n == 0 || rows == 0 || width == 0) return cudaSuccess;
  constexpr std::int64_t kMaxBlocks =
      512;  // a few for each multiprocessor; more would only read the indices more often
  const LaunchShape shape = row_loop_shape(rows < kMaxBlocks ? rows : kMaxBlocks, width);
  return launch<add_rows_kernel<T>>(stream, shape, table, indices, values, scale, n, rows, width);
}

#define FANOUT_INSTANTIATE(T)                                                                                   \
  template cudaError_t take_rows(cudaStream_t, T*, const T*, const std::int64_t*, std::int64_t, std::int64_t,   \
                                 std::int64_t);                                                                 \
  template cudaError_t add_rows(cudaStream_t, T*, const std::int64_t*, const T*, T, std::int64_t, std::int64_t, \
                                std::int64_t);
FANOUT_INSTANTIATE(float)
FANOUT_INSTANTIATE(double)
#undef FANOUT_INSTANTIATE

}  // namespace fanout::kernels
