// SPDX-License-Identifier: Apache-2.0
#include "kernels/layer_norm.h"

#include <cmath>

#include "kernels/block_fold.cuh"
#include "kernels/column_walk.cuh"
#include "kernels/launch.cuh"

namespace fanout::kernels {
namespace {

// One block, one row at a time, read three times from cache. Moves (2 * rows + 2) * cols * sizeof(T) bytes.
// The first element is subtracted before adding up, and the second pass corrects mean and variance for the rounding of
// the first: neither a large common offset nor a long row costs digits.
template <class T>
__global__ void layer_norm_kernel(T* y, T* mean, T* rstd, const T* x, const T* gamma, const T* beta, T eps,
                                  std::int64_t rows, std::int64_t cols) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* const in = x + row * cols;
    const T pivot = in[0];
    const T rough = pivot + block_fold(cols, T(0), Sum{}, [=](std::int64_t i) { return in[i] - pivot; }) / T(cols);
    const SumPair<T> moments = block_sum_pair<T>(cols, [=](std::int64_t i) {
      const T difference = in[i] - rough;
      return SumPair<T>{difference, difference * difference};
    });
    const T correction = moments.first / T(cols);
    const T average = rough + correction;
    const T inverse = T(1) / std::sqrt(moments.second / T(cols) - correction * correction + eps);
    if (threadIdx.x == 0) {
      mean[row] = average;
      rstd[row] = inverse;
    }
    T* const out = y + row * cols;
    if (gamma != nullptr && beta != nullptr) {
      block_map(cols, out, [=](std::int64_t i) { return (in[i] - average) * inverse * gamma[i] + beta[i]; });
    } else {
      block_map(cols, out, [=](std::int64_t i) {
        const T normal = (in[i] - average) * inverse;
        return (gamma == nullptr ? normal : normal * gamma[i]) + (beta == nullptr ? T(0) : beta[i]);
      });
    }
  }
}

// One block, one tile of columns, all rows; thread (x, y) takes the rows y, y + 16, … of its columns.
// Moves 2 * rows * cols * sizeof(T) bytes.
template <class T>
__global__ void layer_norm_parameters_backward_kernel(T* dgamma, T* dbeta, const T* dy, const T* x, const T* mean,
                                                      const T* rstd, bool accumulate, std::int64_t rows,
                                                      std::int64_t cols) {
  const ColumnRun columns = thread_columns(blockIdx.x, cols);
  T gamma_sum[kThreadColumns], beta_sum[kThreadColumns];
  clear_columns(gamma_sum, columns);
  clear_columns(beta_sum, columns);
  for (std::int64_t row = threadIdx.y; row < rows; row += blockDim.y) {
    const T average = mean[row], inverse = rstd[row];
    const T* const gradient = dy + row * cols + columns.first;
    const T* const in = x + row * cols + columns.first;
    for_each_column(columns.count, [&](int k) {
      gamma_sum[k] += gradient[k] * ((in[k] - average) * inverse);
      beta_sum[k] += gradient[k];
    });
  }
  sum_over_tile_rows(gamma_sum, columns);
  sum_over_tile_rows(beta_sum, columns);
  store_column_sums(dgamma, gamma_sum, columns, accumulate);
  store_column_sums(dbeta, beta_sum, columns, accumulate);
}

// One block, one row at a time, read twice from cache. Moves (3 * rows + 1) * cols * sizeof(T) bytes.
// `weight(i)` is gamma[i], or 1.
template <class T, class Weight>
__device__ void layer_norm_backward_row(T* dx, const T* dy, const T* x, T mean, T rstd, std::int64_t cols,
                                        Weight weight) {
  const SumPair<T> sums = block_sum_pair<T>(cols, [=](std::int64_t i) {
    const T g = dy[i] * weight(i);
    return SumPair<T>{g, g * ((x[i] - mean) * rstd)};
  });
  const T g_mean = sums.first / T(cols), product_mean = sums.second / T(cols);
  block_map(cols, dx,
            [=](std::int64_t i) { return rstd * (dy[i] * weight(i) - g_mean - (x[i] - mean) * rstd * product_mean); });
}

template <class T>
__global__ void layer_norm_backward_kernel(T* dx, const T* dy, const T* x, const T* mean, const T* rstd, const T* gamma,
                                           std::int64_t rows, std::int64_t cols) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    T* const out = dx + row * cols;
    const T* const gradient = dy + row * cols;
    const T* const in = x + row * cols;
    if (gamma != nullptr) {
      layer_norm_backward_row(out, gradient, in, mean[row], rstd[row], cols, [=](std::int64_t i) { return gamma[i]; });
    } else {
      layer_norm_backward_row(out, gradient, in, mean[row], rstd[row], cols, [](std::int64_t) { return T(1); });
    }
  }
}

}  // namespace

template <class T>
cudaError_t layer_norm(cudaStream_t stream, T* y, T* mean, T* rstd, const T* x, const T* gamma, const T* beta, T eps,
                       std::int64_t rows, std::int64_t cols) {
  if (rows < 0 || cols < 0) return cudaErrorInvalidValue;
  if (rows == 0 || cols == 0) return cudaSuccess;
  return launch<layer_norm_kernel<T>>(stream, row_loop_shape(rows, cols), y, mean, rstd, x, gamma, beta, eps, rows,
                                      cols);
}

template <class T>
cudaError_t layer_norm_backward(cudaStream_t stream, T* dx, T* dgamma, T* dbeta, const T* dy, const T* x, const T* mean,
                                const T* rstd, const T* gamma, bool accumulate_parameters, std::int64_t rows,
                                std::int64_t cols) {
  if (rows < 0 || cols < 0) return cudaErrorInvalidValue;
  if (cols == 0) return cudaSuccess;
  if (dgamma != nullptr || dbeta != nullptr) {  // first, since dx may be dy or x
    const cudaError_t error = launch<layer_norm_parameters_backward_kernel<T>>(
        stream, column_shape(rows, cols, false), dgamma, dbeta, dy, x, mean, rstd, accumulate_parameters, rows, cols);
    if (error != cudaSuccess) return error;
  }
  if (rows == 0) return cudaSuccess;
  return launch<layer_norm_backward_kernel<T>>(stream, row_loop_shape(rows, cols), dx, dy, x, mean, rstd, gamma, rows,
                                               cols);
}

#define FANOUT_INSTANTIATE(T)                                                                                          \
  template cudaError_t layer_norm(cudaStream_t, T*, T*, T*, const T*, const T*, const T*, T, std::int64_t,             \
                                  std::int64_t);                                                                       \
  template cudaError_t layer_norm_backward(cudaStream_t, T*, T*, T*, const T*, const T*, const T*, const T*, const T*, \
                                           bool, std::int64_t, std::int64_t);
FANOUT_INSTANTIATE(float)
FANOUT_INSTANTIATE(double)
#undef FANOUT_INSTANTIATE

}  // namespace fanout::kernels
