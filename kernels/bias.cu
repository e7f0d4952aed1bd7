// SPDX-License-Identifier: Apache-2.0
// Bias and ReLU in one pass.
#include "kernels/bias.h"

#include "kernels/elementwise.cuh"

namespace fanout::kernels {
namespace {

struct BiasAdd {
  template <class T>
  __device__ void operator()(T& y, const Wide<T>& x, const Wide<T>& bias) const {
    y = static_cast<T>(x + bias);
  }
};

struct BiasRelu {
  template <class T>
  __device__ void operator()(T& y, const Wide<T>& x, const Wide<T>& bias) const {
    const Wide<T> sum = x + bias;
    y = static_cast<T>(sum <= 0 ? 0 : sum);  // so that NaN stays
  }
};

// One block, one row (and every gridDim.x-th after it); its threads take packs of columns side by side, so no thread
// divides to find its column. Moves rows cols (sizeof(T) + sizeof(Wide<T>)) bytes; the bias comes from cache after the
// first rows.
template <int kCount, class F, class T>
__global__ void bias_kernel(F f, T* y, const Wide<T>* x, const Wide<T>* bias, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    for (auto p : block_stride(cols / kCount)) apply_to_pack<kCount>(f, p, y + row * cols, x + row * cols, bias);
  }
}

template <int kCount, class F, class T>
cudaError_t launch_bias(cudaStream_t stream, F f, T* y, const Wide<T>* x, const Wide<T>* bias, std::int64_t rows,
                        std::int64_t cols) {
  const LaunchShape shape = shape_of_rows<kCount>(rows, cols / kCount);
  return launch<bias_kernel<kCount, F, T>>(stream, shape, f, y, x, bias, rows, cols);
}

template <class F, class T>
cudaError_t with_bias(cudaStream_t stream, F f, T* y, const Wide<T>* x, const Wide<T>* bias, std::int64_t rows,
                      std::int64_t cols) {
  if (rows < 0 || cols < 0) return cudaErrorInvalidValue;
  if (rows == 0 || cols == 0) return cudaSuccess;
  constexpr int kCount = kPackElements<T, Wide<T>>;
  if (cols % kCount == 0 && packable<kCount>(y, x, bias)) return launch_bias<kCount>(stream, f, y, x, bias, rows, cols);
  return launch_bias<1>(stream, f, y, x, bias, rows, cols);
}

}  // namespace

template <class T>
cudaError_t bias_add(cudaStream_t stream, T* y, const Wide<T>* x, const Wide<T>* bias, std::int64_t rows,
                     std::int64_t cols) {
  return with_bias(stream, BiasAdd{}, y, x, bias, rows, cols);
}

template <class T>
cudaError_t bias_relu(cudaStream_t stream, T* y, const Wide<T>* x, const Wide<T>* bias, std::int64_t rows,
                      std::int64_t cols) {
  return with_bias(stream, BiasRelu{}, y, x, bias, rows, cols);
}

#define FANOUT_INSTANTIATE(T)                                                                                  \
  template cudaError_t bias_add(cudaStream_t, T*, const Wide<T>*, const Wide<T>*, std::int64_t, std::int64_t); \
  template cudaError_t bias_relu(cudaStream_t, T*, const Wide<T>*, const Wide<T>*, std::int64_t, std::int64_t)
FANOUT_INSTANTIATE(float);
FANOUT_INSTANTIATE(double);
FANOUT_INSTANTIATE(__nv_bfloat16);
#undef FANOUT_INSTANTIATE

}  // namespace fanout::kernels
