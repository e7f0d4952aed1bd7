// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm.h"

#include "kernels/launch.cuh"

namespace fanout::kernels {
namespace {

constexpr int kTile = 64;      // rows and columns of c that a block computes
constexpr int kDepth = 16;     // of k that it holds in shared memory at a time
constexpr int kThreads = 256;  // as 16 x 16
constexpr int kSide = 16;
constexpr int kPerThread = kTile / kSide;  // a thread computes kPerThread x kPerThread elements in registers

// tile[d][line] = element (first_line + line, first_depth + d) of op(a), or of op(b) transposed; 0 beyond the matrix.
// Neighbouring threads read along whichever index is contiguous; the padding keeps their writes in different banks.
template <class T, bool kDepthIsContiguous>
__device__ void load_tile(T (&tile)[kDepth][kTile + 1], const T* matrix, std::int64_t first_line, std::int64_t lines,
                          std::int64_t first_depth, std::int64_t depth) {
  for (int i = int(threadIdx.x); i < kTile * kDepth; i += kThreads) {
    const int line = kDepthIsContiguous ? i / kDepth : i % kTile;
    const int d = kDepthIsContiguous ? i % kDepth : i / kTile;
    const std::int64_t at_line = first_line + line, at_depth = first_depth + d;
    const bool inside = at_line < lines && at_depth < depth;
    tile[d][line] =
        !inside ? T(0) : matrix[kDepthIsContiguous ? at_line * depth + at_depth : at_depth * lines + at_line];
  }
}

// One block, one 64 x 64 tile of c; thread (column, row) of 16 x 16 computes 16 elements, 16 apart, so that a warp
// stores adjacent ones. Each loaded element takes part in 64 products: moves about (m * n * k / 32 + m * n) * sizeof(T)
// bytes.
template <class T, bool kTransposeA, bool kTransposeB>
__global__ void __launch_bounds__(kThreads)
    gemm_kernel(T* c, const T* a, const T* b, std::int64_t m, std::int64_t n, std::int64_t k, T alpha, T beta) {
  __shared__ T a_tile[kDepth][kTile + 1];
  __shared__ T b_tile[kDepth][kTile + 1];
  const std::int64_t tiles_along_n = (n + kTile - 1) / kTile;
  const std::int64_t first_row = blockIdx.x / tiles_along_n * kTile, first_col = blockIdx.x % tiles_along_n * kTile;
  const int column = int(threadIdx.x) % kSide, row = int(threadIdx.x) / kSide;
  T sum[kPerThread][kPerThread] = {};
  for (std::int64_t depth = 0; depth < k; depth += kDepth) {
    load_tile<T, !kTransposeA>(a_tile, a, first_row, m, depth, k);
    load_tile<T, kTransposeB>(b_tile, b, first_col, n, depth, k);
    __syncthreads();
    for (int d = 0; d < kDepth; ++d) {
      T a_value[kPerThread], b_value[kPerThread];
      for (int i = 0; i < kPerThread; ++i) a_value[i] = a_tile[d][row + i * kSide];
      for (int j = 0; j < kPerThread; ++j) b_value[j] = b_tile[d][column + j * kSide];
      for (int i = 0; i < kPerThread; ++i) {
        for (int j = 0; j < kPerThread; ++j) sum[i][j] += a_value[i] * b_value[j];
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < kPerThread; ++i) {
    for (int j = 0; j < kPerThread; ++j) {
      const std::int64_t at_row = first_row + row + i * kSide, at_col = first_col + column + j * kSide;
      if (at_row >= m || at_col >= n) continue;
      T* const element = c + at_row * n + at_col;
      *element = beta == T(0) ? alpha * sum[i][j] : alpha * sum[i][j] + beta * *element;
    }
  }
}

template <class T, bool kTransposeA, bool kTransposeB>
cudaError_t launch_gemm(cudaStream_t stream, T* c, const T* a, const T* b, std::int64_t m, std::int64_t n,
                        std::int64_t k, T alpha, T beta) {
  LaunchShape shape;
  shape.block.x = kThreads;
  shape.grid.x = unsigned((m + kTile - 1) / kTile * ((n + kTile - 1) / kTile));
  return launch<gemm_kernel<T, kTransposeA, kTransposeB>>(stream, shape, c, a, b, m, n, k, alpha, beta);
}

}  // namespace

template <class T>
cudaError_t gemm(cudaStream_t stream, T* c, const T* a, const T* b, Transpose transpose_a, Transpose transpose_b,
                 std::int64_t m, std::int64_t n, std::int64_t k, T alpha, T beta) {
  if (m < 0 || n < 0 || k < 0) return cudaErrorInvalidValue;
  if (m == 0 || n == 0) return cudaSuccess;
  if (transpose_a == Transpose::no) {
    if (transpose_b == Transpose::no) return launch_gemm<T, false, false>(stream, c, a, b, m, n, k, alpha, beta);
    return launch_gemm<T, false, true>(stream, c, a, b, m, n, k, alpha, beta);
  }
  if (transpose_b == Transpose::no) return launch_gemm<T, true, false>(stream, c, a, b, m, n, k, alpha, beta);
  return launch_gemm<T, true, true>(stream, c, a, b, m, n, k, alpha, beta);
}

#define FANOUT_INSTANTIATE(T)                                                                                       \
  template cudaError_t gemm(cudaStream_t, T*, const T*, const T*, Transpose, Transpose, std::int64_t, std::int64_t, \
                            std::int64_t, T, T);
FANOUT_INSTANTIATE(float)
FANOUT_INSTANTIATE(double)
#undef FANOUT_INSTANTIATE

}  // namespace fanout::kernels
