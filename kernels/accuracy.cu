// SPDX-License-Identifier: Apache-2.0
#include "kernels/accuracy.h"

#include "kernels/block_fold.cuh"
#include "kernels/launch.cuh"

namespace fanout::kernels {
namespace {

struct Min {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};

// One block, one row at a time: each thread finds its first maximum, then the block the first among the threads'.
// Moves rows * (cols * sizeof(T) + 8) bytes.
template <class T>
__global__ void argmax_kernel(std::int64_t* y, const T* x, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* const in = x + row * cols;
    T best = -kInfinity<T>;
    std::int64_t best_index = cols, nan_index = cols;
    for (auto i : block_stride(cols)) {
      const T value = in[i];
      if (value != value) {
        nan_index = nan_index < i ? nan_index : i;
      } else if (best_index == cols || value > best) {
        best = value;
        best_index = i;
      }
    }
    const std::int64_t first_nan = block_reduce(nan_index, Min{}, cols);
    const T max = block_reduce(best, Max{}, -kInfinity<T>);
    const std::int64_t first_max = block_reduce(best == max ? best_index : cols, Min{}, cols);
    if (threadIdx.x == 0) y[row] = first_nan < cols ? first_nan : first_max;
  }
}

// One block. Moves 16 * rows bytes.
__global__ void count_correct_kernel(std::int64_t* count, const std::int64_t* predictions, const std::int64_t* labels,
                                     std::int64_t rows) {
  const auto correct = [=](std::int64_t i) { return std::int64_t(predictions[i] == labels[i]); };
  const std::int64_t sum = block_fold(rows, std::int64_t(0), Sum{}, correct);
  if (threadIdx.x == 0) *count = sum;
}

}  // namespace

template <class T>
cudaError_t argmax(cudaStream_t stream, std::int64_t* y, const T* x, std::int64_t rows, std::int64_t cols) {
  if (rows < 0 || cols < 0 || (rows > 0 && cols == 0)) return cudaErrorInvalidValue;
  if (rows == 0) return cudaSuccess;
  return launch<argmax_kernel<T>>(stream, row_loop_shape(rows, cols), y, x, rows, cols);
}

cudaError_t count_correct(cudaStream_t stream, std::int64_t* count, const std::int64_t* predictions,
                          const std::int64_t* labels, std::int64_t rows) {
  if (rows < 0) return cudaErrorInvalidValue;
  return launch<count_correct_kernel>(stream, row_shape(1, rows), count, predictions, labels, rows);
}

template cudaError_t argmax(cudaStream_t, std::int64_t*, const float*, std::int64_t, std::int64_t);
template cudaError_t argmax(cudaStream_t, std::int64_t*, const double*, std::int64_t, std::int64_t);

}  // namespace fanout::kernels
