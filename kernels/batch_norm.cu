// SPDX-License-Identifier: Apache-2.0
// All kernels: one block, one tile of columns; thread (x, y) takes the rows y, y + 16, … of its columns.
#include "kernels/batch_norm.h"

#include <cmath>

#include "kernels/column_walk.cuh"
#include "kernels/launch.cuh"

namespace fanout::kernels {
namespace {

// Moves 2 * rows * cols * sizeof(T) bytes, the second half from cache where a tile fits.
// As in layer_norm, the first row is subtracted before adding up, and the second pass corrects the rounding of the
// first.
template <class T>
__global__ void batch_norm_statistics_kernel(T* mean, T* rstd, T* running_mean, T* running_var, const T* x, T momentum,
                                             T eps, std::int64_t rows, std::int64_t cols) {
  const ColumnRun columns = thread_columns(blockIdx.x, cols);
  const T* const first = x + columns.first;
  T average[kThreadColumns], sum[kThreadColumns], square_sum[kThreadColumns];
  clear_columns(sum, columns);
  for (std::int64_t row = threadIdx.y; row < rows; row += blockDim.y) {
    const T* const in = first + row * cols;
    for_each_column(columns.count, [&](int k) { sum[k] += in[k] - first[k]; });
  }
  sum_over_tile_rows(sum, columns);
  for_each_column(columns.count, [&](int k) { average[k] = first[k] + sum[k] / T(rows); });
  clear_columns(sum, columns);
  clear_columns(square_sum, columns);
  for (std::int64_t row = threadIdx.y; row < rows; row += blockDim.y) {
    const T* const in = first + row * cols;
    for_each_column(columns.count, [&](int k) {
      const T difference = in[k] - average[k];
      sum[k] += difference;
      square_sum[k] += difference * difference;
    });
  }
  sum_over_tile_rows(sum, columns);
  sum_over_tile_rows(square_sum, columns);
  if (threadIdx.y != 0) return;
  for_each_column(columns.count, [&](int k) {
    const std::int64_t column = columns.first + k;
    const T correction = sum[k] / T(rows);
    const T squares = square_sum[k] - sum[k] * correction;
    mean[column] = average[k] + correction;
    rstd[column] = T(1) / std::sqrt(squares / T(rows) + eps);
    if (running_mean != nullptr)
      running_mean[column] = (T(1) - momentum) * running_mean[column] + momentum * mean[column];
    if (running_var != nullptr) {
      running_var[column] = (T(1) - momentum) * running_var[column] + momentum * (squares / T(rows > 1 ? rows - 1 : 1));
    }
  });
}

// y = (x - shift) * factor * gamma + beta, where factor is `scale`, or 1 / sqrt(scale + eps) where scale is a variance.
// Blocks along grid.y share the rows. Moves 2 * rows * cols * sizeof(T) bytes.
template <class T, bool kScaleIsVariance>
__global__ void batch_norm_apply_kernel(T* y, const T* x, const T* shift, const T* scale, const T* gamma, const T* beta,
                                        T eps, std::int64_t rows, std::int64_t cols) {
  const ColumnRun columns = thread_columns(blockIdx.x, cols);
  T center[kThreadColumns], factor[kThreadColumns], offset[kThreadColumns];
  for_each_column(columns.count, [&](int k) {
    const std::int64_t column = columns.first + k;
    center[k] = shift[column];
    factor[k] = kScaleIsVariance ? T(1) / std::sqrt(scale[column] + eps) : scale[column];
    if (gamma != nullptr) factor[k] *= gamma[column];
    offset[k] = beta == nullptr ? T(0) : beta[column];
  });
  const std::int64_t step = std::int64_t(gridDim.y) * blockDim.y;
  for (std::int64_t row = std::int64_t(blockIdx.y) * blockDim.y + threadIdx.y; row < rows; row += step) {
    const T* const in = x + row * cols + columns.first;
    map_columns(columns.count, y + row * cols + columns.first,
                [&](int k) { return (in[k] - center[k]) * factor[k] + offset[k]; });
  }
}

// Moves 5 * rows * cols * sizeof(T) bytes: dy and x are read twice, the second time from cache where a tile fits.
template <class T>
__global__ void batch_norm_backward_kernel(T* dx, T* dgamma, T* dbeta, const T* dy, const T* x, const T* mean,
                                           const T* rstd, const T* gamma, bool accumulate, std::int64_t rows,
                                           std::int64_t cols) {
  const ColumnRun columns = thread_columns(blockIdx.x, cols);
  T center[kThreadColumns], inverse[kThreadColumns], gradient_sum[kThreadColumns], product_sum[kThreadColumns];
  for_each_column(columns.count, [&](int k) {
    center[k] = mean[columns.first + k];
    inverse[k] = rstd[columns.first + k];
  });
  clear_columns(gradient_sum, columns);
  clear_columns(product_sum, columns);
  for (std::int64_t row = threadIdx.y; row < rows; row += blockDim.y) {
    const T* const gradient = dy + row * cols + columns.first;
    const T* const in = x + row * cols + columns.first;
    for_each_column(columns.count, [&](int k) {
      gradient_sum[k] += gradient[k];
      product_sum[k] += gradient[k] * ((in[k] - center[k]) * inverse[k]);
    });
  }
  sum_over_tile_rows(gradient_sum, columns);
  sum_over_tile_rows(product_sum, columns);
  store_column_sums(dgamma, product_sum, columns, accumulate);
  store_column_sums(dbeta, gradient_sum, columns, accumulate);
  for_each_column(columns.count, [&](int k) {
    gradient_sum[k] /= T(rows);
    product_sum[k] *= inverse[k] / T(rows);
    if (gamma != nullptr) inverse[k] *= gamma[columns.first + k];
  });
  for (std::int64_t row = threadIdx.y; row < rows; row += blockDim.y) {
    const T* const gradient = dy + row * cols + columns.first;
    const T* const in = x + row * cols + columns.first;
    map_columns(columns.count, dx + row * cols + columns.first, [&](int k) {
      return inverse[k] * (gradient[k] - gradient_sum[k] - (in[k] - center[k]) * product_sum[k]);
    });
  }
}

// Moves 3 * rows * cols * sizeof(T) bytes.
template <class T>
__global__ void batch_norm_evaluation_backward_kernel(T* dx, T* dgamma, T* dbeta, const T* dy, const T* x,
                                                      const T* running_mean, const T* running_var, const T* gamma,
                                                      T eps, bool accumulate, std::int64_t rows, std::int64_t cols) {
  const ColumnRun columns = thread_columns(blockIdx.x, cols);
  T center[kThreadColumns], inverse[kThreadColumns], factor[kThreadColumns];
  T gradient_sum[kThreadColumns], product_sum[kThreadColumns];
  for_each_column(columns.count, [&](int k) {
    const std::int64_t column = columns.first + k;
    center[k] = running_mean[column];
    inverse[k] = T(1) / std::sqrt(running_var[column] + eps);
    factor[k] = gamma == nullptr ? inverse[k] : gamma[column] * inverse[k];
  });
  clear_columns(gradient_sum, columns);
  clear_columns(product_sum, columns);
  for (std::int64_t row = threadIdx.y; row < rows; row += blockDim.y) {
    const T* const upstream = dy + row * cols + columns.first;
    const T* const in = x + row * cols + columns.first;
    map_columns(columns.count, dx + row * cols + columns.first, [&](int k) {
      const T gradient = upstream[k];
      gradient_sum[k] += gradient;
      product_sum[k] += gradient * ((in[k] - center[k]) * inverse[k]);
      return gradient * factor[k];
    });
  }
  sum_over_tile_rows(gradient_sum, columns);
  sum_over_tile_rows(product_sum, columns);
  store_column_sums(dgamma, product_sum, columns, accumulate);
  store_column_sums(dbeta, gradient_sum, columns, accumulate);
}

}  // namespace

template <class T>
cudaError_t batch_norm_training(cudaStream_t stream, T* y, T* mean, T* rstd, T* running_mean, T* running_var,
                                const T* x, const T* gamma, const T* beta, T momentum, T eps, std::int64_t rows,
                                std::int64_t cols) {
  if (rows < 0 || cols < 0) return cudaErrorInvalidValue;
  if (rows == 0 || cols == 0) return cudaSuccess;
  const cudaError_t error = launch<batch_norm_statistics_kernel<T>>(
      stream, column_shape(rows, cols, false), mean, rstd, running_mean, running_var, x, momentum, eps, rows, cols);
  if (error != cudaSuccess) return error;
  return launch<batch_norm_apply_kernel<T, false>>(stream, column_shape(rows, cols, true), y, x, mean, rstd, gamma,
                                                   beta, eps, rows, cols);
}

template <class T>
cudaError_t batch_norm_evaluation(cudaStream_t stream, T* y, const T* x, const T* running_mean, const T* running_var,
                                  const T* gamma, const T* beta, T eps, std::int64_t rows, std::int64_t cols) {
  if (rows < 0 || cols < 0) return cudaErrorInvalidValue;
  if (rows == 0 || cols == 0) return cudaSuccess;
  return launch<batch_norm_apply_kernel<T, true>>(stream, column_shape(rows, cols, true), y, x, running_mean,
                                                  running_var, gamma, beta, eps, rows, cols);
}

template <class T>
cudaError_t batch_norm_backward(cudaStream_t stream, T* dx, T* dgamma, T* dbeta, const T* dy, const T* x, const T* mean,
                                const T* rstd, const T* gamma, bool accumulate_parameters, std::int64_t rows,
                                std::int64_t cols) {
  if (rows < 0 || cols < 0) return cudaErrorInvalidValue;
  if (cols == 0) return cudaSuccess;
  return launch<batch_norm_backward_kernel<T>>(stream, column_shape(rows, cols, false), dx, dgamma, dbeta, dy, x, mean,
                                               rstd, gamma, accumulate_parameters, rows, cols);
}

template <class T>
cudaError_t batch_norm_evaluation_backward(cudaStream_t stream, T* dx, T* dgamma, T* dbeta, const T* dy, const T* x,
                                           const T* running_mean, const T* running_var, const T* gamma, T eps,
                                           bool accumulate_parameters, std::int64_t rows, std::int64_t cols) {
  if (rows < 0 || cols < 0) return cudaErrorInvalidValue;
  if (cols == 0) return cudaSuccess;
  return launch<batch_norm_evaluation_backward_kernel<T>>(stream, column_shape(rows, cols, false), dx, dgamma, dbeta,
                                                          dy, x, running_mean, running_var, gamma, eps,
                                                          accumulate_parameters, rows, cols);
}

#define FANOUT_INSTANTIATE(T)                                                                                          \
  template cudaError_t batch_norm_training(cudaStream_t, T*, T*, T*, T*, T*, const T*, const T*, const T*, T, T,       \
                                           std::int64_t, std::int64_t);                                                \
  template cudaError_t batch_norm_evaluation(cudaStream_t, T*, const T*, const T*, const T*, const T*, const T*, T,    \
                                             std::int64_t, std::int64_t);                                              \
  template cudaError_t batch_norm_backward(cudaStream_t, T*, T*, T*, const T*, const T*, const T*, const T*, const T*, \
                                           bool, std::int64_t, std::int64_t);                                          \
  template cudaError_t batch_norm_evaluation_backward(cudaStream_t, T*, T*, T*, const T*, const T*, const T*,          \
                                                      const T*, const T*, T, bool, std::int64_t, std::int64_t);
FANOUT_INSTANTIATE(float)
FANOUT_INSTANTIATE(double)
#undef FANOUT_INSTANTIATE

}  // namespace fanout::kernels
