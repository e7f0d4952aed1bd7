// SPDX-License-Identifier: Apache-2.0
// Bias and ReLU in one pass.
#include "kernels/bias.h"

#include "kernels/elementwise.cuh"

namespace fanout::kernels {
namespace {

struct BiasAdd {
  template <class T>
  __device__ void operator()(T& y, const T& x, const T& bias) const {
    y = x + bias;
  }
};

struct BiasRelu {
  template <class T>
  __device__ void operator()(T& y, const T& x, const T& bias) const {
    const T sum = x + bias;
    y = sum <= T(0) ? T(0) : sum;  // so that NaN stays
  }
};

// One block, one row (and every gridDim.x-th after it); its threads take packs of columns side by side, so no thread
// divides to find its column. Moves 2 rows cols sizeof(T) bytes; the bias comes from cache after the first rows.
template <int kCount, class F, class T>
__global__ void bias_kernel(F f, T* y, const T* x, const T* bias, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    for (auto p : block_stride(cols / kCount)) apply_to_pack<kCount>(f, p, y + row * cols, x + row * cols, bias);
  }
}

template <int kCount, class F, class T>
cudaError_t launch_bias(cudaStream_t stream, F f, T* y, const T* x, const T* bias, std::int64_t rows,
                        std::int64_t cols) {
  const LaunchShape shape = shape_of_rows<kCount>(rows, cols / kCount);
  return launch<bias_kernel<kCount, F, T>>(stream, shape, f, y, x, bias, rows, cols);
}

template <class F, class T>
cudaError_t with_bias(cudaStream_t stream, F f, T* y, const T* x, const T* bias, std::int64_t rows, std::int64_t cols) {
  if (rows < 0 || cols < 0) return cudaErrorInvalidValue;
  if (rows == 0 || cols == 0) return cudaSuccess;
  constexpr int kCount = kPackElements<T>;
  if (cols % kCount == 0 && packable<kCount>(y, x, bias)) return launch_bias<kCount>(stream, f, y, x, bias, rows, cols);
  return launch_bias<1>(stream, f, y, x, bias, rows, cols);
}

}  // namespace

template <class T>
cudaError_t bias_add(cudaStream_t stream, T* y, const T* x, const T* bias, std::int64_t rows, std::int64_t cols) {
  return with_bias(stream, BiasAdd{}, y, x, bias, rows, cols);
}

template <class T>
cudaError_t bias_relu(cudaStream_t stream, T* y, const T* x, const T* bias, std::int64_t rows, std::int64_t cols) {
  return with_bias(stream, BiasRelu{}, y, x, bias, rows, cols);
}

template cudaError_t bias_add(cudaStream_t, float*, const float*, const float*, std::int64_t, std::int64_t);
template cudaError_t bias_add(cudaStream_t, double*, const double*, const double*, std::int64_t, std::int64_t);
template cudaError_t bias_relu(cudaStream_t, float*, const float*, const float*, std::int64_t, std::int64_t);
template cudaError_t bias_relu(cudaStream_t, double*, const double*, const double*, std::int64_t, std::int64_t);

}  // namespace fanout::kernels
