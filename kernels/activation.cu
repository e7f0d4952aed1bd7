// SPDX-License-Identifier: Apache-2.0
// Activations move 2 n sizeof(T) bytes, their backwards 3 n sizeof(T). Threads: see elementwise.cuh.
#include "kernels/activation.h"

#include <cuda_bf16.h>

#include <cmath>

#include "kernels/elementwise.cuh"

namespace fanout::kernels {
namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;        // 1/√2
constexpr double kInverseSqrtTau = 0.39894228040143267794;  // 1/√(2π)

struct Relu {
  template <class T>
  __device__ void operator()(T& y, const T& x) const {
    y = x <= T(0) ? T(0) : x;  // so that NaN stays
  }
};

struct ReluBackward {
  template <class T>
  __device__ void operator()(T& dx, const T& dy, const T& y) const {
    dx = y <= T(0) ? T(0) : dy;
  }
};

struct Gelu {
  template <class T>
  __device__ void operator()(T& y, const T& x) const {
    y = T(0.5) * x * (T(1) + std::erf(x * T(kSqrtHalf)));
  }
};

struct GeluBackward {
  template <class T>
  __device__ void operator()(T& dx, const T& dy, const T& x) const {
    const T cdf = T(0.5) * (T(1) + std::erf(x * T(kSqrtHalf)));
    const T pdf = T(kInverseSqrtTau) * std::exp(T(-0.5) * x * x);
    dx = dy * (cdf + x * pdf);
  }
};

struct Tanh {
  template <class T>
  __device__ void operator()(T& y, const T& x) const {
    y = std::tanh(x);
  }
};

struct TanhBackward {
  template <class T>
  __device__ void operator()(T& dx, const T& dy, const T& y) const {
    dx = dy * (T(1) - y * y);
  }
};

struct Sigmoid {
  template <class T>
  __device__ void operator()(T& y, const T& x) const {
    y = T(1) / (T(1) + std::exp(-x));  // e^-x may be infinite: then y is 0, as it should
  }
};

struct SigmoidBackward {
  template <class T>
  __device__ void operator()(T& dx, const T& dy, const T& y) const {
    dx = dy * (y * (T(1) - y));
  }
};

}  // namespace

template <class T>
cudaError_t relu(cudaStream_t stream, T* y, const T* x, std::int64_t n) {
  return elementwise(stream, n, Relu{}, y, x);
}

template <class T>
cudaError_t relu_backward(cudaStream_t stream, T* dx, const T* dy, const T* y, std::int64_t n) {
  return elementwise(stream, n, ReluBackward{}, dx, dy, y);
}

template <class T>
cudaError_t gelu(cudaStream_t stream, T* y, const T* x, std::int64_t n) {
  return elementwise(stream, n, Gelu{}, y, x);
}

template <class T>
cudaError_t gelu_backward(cudaStream_t stream, T* dx, const T* dy, const T* x, std::int64_t n) {
  return elementwise(stream, n, GeluBackward{}, dx, dy, x);
}

template <class T>
cudaError_t tanh(cudaStream_t stream, T* y, const T* x, std::int64_t n) {
  return elementwise(stream, n, Tanh{}, y, x);
}

template <class T>
cudaError_t tanh_backward(cudaStream_t stream, T* dx, const T* dy, const T* y, std::int64_t n) {
  return elementwise(stream, n, TanhBackward{}, dx, dy, y);
}

template <class T>
cudaError_t sigmoid(cudaStream_t stream, T* y, const T* x, std::int64_t n) {
  return elementwise(stream, n, Sigmoid{}, y, x);
}

template <class T>
cudaError_t sigmoid_backward(cudaStream_t stream, T* dx, const T* dy, const T* y, std::int64_t n) {
  return elementwise(stream, n, SigmoidBackward{}, dx, dy, y);
}

#define FANOUT_INSTANTIATE(T)                                                             \
  template cudaError_t relu(cudaStream_t, T*, const T*, std::int64_t);                    \
  template cudaError_t relu_backward(cudaStream_t, T*, const T*, const T*, std::int64_t); \
  template cudaError_t gelu(cudaStream_t, T*, const T*, std::int64_t);                    \
  template cudaError_t gelu_backward(cudaStream_t, T*, const T*, const T*, std::int64_t); \
  template cudaError_t tanh(cudaStream_t, T*, const T*, std::int64_t);                    \
  template cudaError_t tanh_backward(cudaStream_t, T*, const T*, const T*, std::int64_t); \
  template cudaError_t sigmoid(cudaStream_t, T*, const T*, std::int64_t);                 \
  template cudaError_t sigmoid_backward(cudaStream_t, T*, const T*, const T*, std::int64_t)
FANOUT_INSTANTIATE(float);
FANOUT_INSTANTIATE(double);
#undef FANOUT_INSTANTIATE
template cudaError_t relu(cudaStream_t, __nv_bfloat16*, const __nv_bfloat16*, std::int64_t);

}  // namespace fanout::kernels
