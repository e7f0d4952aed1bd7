// SPDX-License-Identifier: Apache-2.0
// Transpose through shared memory, so that both the reads and the writes of a warp are contiguous.
#include "kernels/transpose.h"

#include "kernels/elementwise.cuh"

namespace fanout::kernels {
namespace {

constexpr int kTile = 32;  // one warp reads or writes one row of a tile

// One block, one tile of 32 x 32 elements (and every gridDim.x-th after it). A warp takes whole rows of it, first of x,
// then of y; a block of one thread takes everything. The odd row length of the tile puts the 32 elements of a column in
// 32 banks. Moves 2 rows cols sizeof(T) bytes.
template <class T>
__global__ void transpose_kernel(T* y, const T* x, std::int64_t rows, std::int64_t cols) {
  __shared__ T tile[kTile][kTile + 1];
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  const int lanes = threads < kTile ? threads : kTile, lane = thread % kTile;
  const int warps = threads / lanes, warp = thread / kTile;
  const std::int64_t tiles_across = (cols + kTile - 1) / kTile;
  const std::int64_t tiles = (rows + kTile - 1) / kTile * tiles_across;
  for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const std::int64_t first_row = t / tiles_across * kTile, first_col = t % tiles_across * kTile;
    const int height = rows - first_row < kTile ? static_cast<int>(rows - first_row) : kTile;
    const int width = cols - first_col < kTile ? static_cast<int>(cols - first_col) : kTile;
    for (int r = warp; r < height; r += warps) {
      const T* const from = x + (first_row + r) * cols + first_col;
      for (int c = lane; c < width; c += lanes) tile[r][c] = from[c];
    }
    __syncthreads();
    for (int c = warp; c < width; c += warps) {
      T* const to = y + (first_col + c) * rows + first_row;
      for (int r = lane; r < height; r += lanes) to[r] = tile[r][c];
    }
    __syncthreads();  // before the next tile overwrites this one
  }
}

}  // namespace

template <class T>
cudaError_t transpose(cudaStream_t stream, T* y, const T* x, std::int64_t rows, std::int64_t cols) {
  if (rows < 0 || cols < 0) return cudaErrorInvalidValue;
  if (rows == 0 || cols == 0) return cudaSuccess;
  const std::int64_t tiles = ((rows + kTile - 1) / kTile) * ((cols + kTile - 1) / kTile);
  constexpr std::int64_t kMaxBlocks = 2147483647;
  return launch<transpose_kernel<T>>(stream, row_shape(std::min(tiles, kMaxBlocks), kTile * kTile), y, x, rows, cols);
}

template cudaError_t transpose(cudaStream_t, float*, const float*, std::int64_t, std::int64_t);
template cudaError_t transpose(cudaStream_t, double*, const double*, std::int64_t, std::int64_t);

}  // namespace fanout::kernels
