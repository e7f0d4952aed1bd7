// SPDX-License-Identifier: Apache-2.0
// One block, one row at a time. Each kernel reads a row more than once; rows fit in cache, so the bytes below count
// once.
#include "kernels/softmax.h"

#include <cmath>

#include "kernels/block_fold.cuh"
#include "kernels/exponential.cuh"
#include "kernels/launch.cuh"

namespace fanout::kernels {
namespace {

// Moves 2 * rows * cols * sizeof(T) bytes. y holds the exponentials until they are divided: an exponential costs more
// than a second look at the cache.
template <class T>
__global__ void softmax_kernel(T* y, const T* x, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* const in = x + row * cols;
    T* const out = y + row * cols;
    const T max = block_fold(cols, -kInfinity<T>, Max{}, [=](std::int64_t i) { return in[i]; });
    const T sum = block_map_fold(cols, out, T(0), Sum{}, [=](std::int64_t i) { return exponential(in[i] - max); });
    const T factor = T(1) / sum;
    block_map(cols, out, [=](std::int64_t i) { return out[i] * factor; });
  }
}

// Moves 2 * rows * cols * sizeof(T) bytes.
template <class T>
__global__ void log_softmax_kernel(T* y, const T* x, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* const in = x + row * cols;
    const T max = block_fold(cols, -kInfinity<T>, Max{}, [=](std::int64_t i) { return in[i]; });
    const T sum = block_fold(cols, T(0), Sum{}, [=](std::int64_t i) { return exponential(in[i] - max); });
    const T log_sum = std::log(sum);
    block_map(cols, y + row * cols, [=](std::int64_t i) { return (in[i] - max) - log_sum; });
  }
}

// Moves 3 * rows * cols * sizeof(T) bytes.
template <class T>
__global__ void softmax_backward_kernel(T* dx, const T* dy, const T* y, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* const gradient = dy + row * cols;
    const T* const out = y + row * cols;
    const T dot = block_fold(cols, T(0), Sum{}, [=](std::int64_t i) { return gradient[i] * out[i]; });
    block_map(cols, dx + row * cols, [=](std::int64_t i) { return out[i] * (gradient[i] - dot); });
  }
}

// Moves 3 * rows * cols * sizeof(T) bytes.
template <class T>
__global__ void log_softmax_backward_kernel(T* dx, const T* dy, const T* y, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* const gradient = dy + row * cols;
    const T* const out = y + row * cols;
    const T sum = block_fold(cols, T(0), Sum{}, [=](std::int64_t i) { return gradient[i]; });
    block_map(cols, dx + row * cols, [=](std::int64_t i) { return gradient[i] - exponential(out[i]) * sum; });
  }
}

}  // namespace

template <class T>
cudaError_t softmax(cudaStream_t stream, T* y, const T* x, std::int64_t rows, std::int64_t cols) {
  if (rows < 0 || cols < 0) return cudaErrorInvalidValue;
  if (rows == 0 || cols == 0) return cudaSuccess;
  return launch<softmax_kernel<T>>(stream, row_loop_shape(rows, cols), y, x, rows, cols);
}

template <class T>
cudaError_t softmax_backward(cudaStream_t stream, T* dx, const T* dy, const T* y, std::int64_t rows,
                             std::int64_t cols) {
  if (rows < 0 || cols < 0) return cudaErrorInvalidValue;
  if (rows == 0 || cols == 0) return cudaSuccess;
  return launch<softmax_backward_kernel<T>>(stream, row_loop_shape(rows, cols), dx, dy, y, rows, cols);
}

template <class T>
cudaError_t log_softmax(cudaStream_t stream, T* y, const T* x, std::int64_t rows, std::int64_t cols) {
  if (rows < 0 || cols < 0) return cudaErrorInvalidValue;
  if (rows == 0 || cols == 0) return cudaSuccess;
  return launch<log_softmax_kernel<T>>(stream, row_loop_shape(rows, cols), y, x, rows, cols);
}

template <class T>
cudaError_t log_softmax_backward(cudaStream_t stream, T* dx, const T* dy, const T* y, std::int64_t rows,
                                 std::int64_t cols) {
  if (rows < 0 || cols < 0) return cudaErrorInvalidValue;
  if (rows == 0 || cols == 0) return cudaSuccess;
  return launch<log_softmax_backward_kernel<T>>(stream, row_loop_shape(rows, cols), dx, dy, y, rows, cols);
}

#define FANOUT_INSTANTIATE(T)                                                                              \
  template cudaError_t softmax(cudaStream_t, T*, const T*, std::int64_t, std::int64_t);                    \
  template cudaError_t softmax_backward(cudaStream_t, T*, const T*, const T*, std::int64_t, std::int64_t); \
  template cudaError_t log_softmax(cudaStream_t, T*, const T*, std::int64_t, std::int64_t);                \
  template cudaError_t log_softmax_backward(cudaStream_t, T*, const T*, const T*, std::int64_t, std::int64_t);
FANOUT_INSTANTIATE(float)
FANOUT_INSTANTIATE(double)
#undef FANOUT_INSTANTIATE

}  // namespace fanout::kernels
