// SPDX-License-Identifier: Apache-2.0
#include "kernels/bias_backward.h"

#include "kernels/column_walk.cuh"
#include "kernels/launch.cuh"

namespace fanout::kernels {
namespace {

// One block, one tile of columns, all rows; thread (x, y) takes the rows y, y + 16, … of its columns.
// Moves 3 * rows * cols * sizeof(T) bytes.
template <class T>
__global__ void bias_relu_backward_kernel(T* dx, Wide<T>* dbias, const T* dy, const T* y, bool accumulate_bias,
                                          std::int64_t rows, std::int64_t cols) {
  const ColumnRun columns = thread_columns(blockIdx.x, cols);
  Wide<T> sum[kThreadColumns];
  clear_columns(sum, columns);
  for (std::int64_t row = threadIdx.y; row < rows; row += blockDim.y) {
    const std::int64_t start = row * cols + columns.first;
    map_columns(columns.count, dx + start, [&](int k) {
      const Wide<T> upstream = dy[start + k], output = y[start + k];
      const Wide<T> gradient = output > 0 ? upstream : 0;
      sum[k] += gradient;
      return static_cast<T>(gradient);
    });
  }
  sum_over_tile_rows(sum, columns);
  store_column_sums(dbias, sum, columns, accumulate_bias);
}

}  // namespace

template <class T>
cudaError_t bias_relu_backward(cudaStream_t stream, T* dx, Wide<T>* dbias, const T* dy, const T* y,
                               bool accumulate_bias, std::int64_t rows, std::int64_t cols) {
  if (rows < 0 || cols < 0) return cudaErrorInvalidValue;
  if (cols == 0 || (rows == 0 && dbias == nullptr)) return cudaSuccess;
  return launch<bias_relu_backward_kernel<T>>(stream, column_shape(rows, cols, false), dx, dbias, dy, y,
                                              accumulate_bias, rows, cols);
}

#define FANOUT_INSTANTIATE(T)                                                                                 \
  template cudaError_t bias_relu_backward(cudaStream_t, T*, Wide<T>*, const T*, const T*, bool, std::int64_t, \
                                          std::int64_t);
FANOUT_INSTANTIATE(float)
FANOUT_INSTANTIATE(double)
FANOUT_INSTANTIATE(__nv_bfloat16)
#undef FANOUT_INSTANTIATE

}  // namespace fanout::kernels
