// SPDX-License-Identifier: Apache-2.0
// Elementwise arithmetic. Threads: see elementwise.cuh. Two inputs move 3 n sizeof(T) bytes, one input 2 n sizeof(T).
#include "kernels/arithmetic.h"

#include <cmath>

#include "kernels/elementwise.cuh"
#include "kernels/wide.h"

namespace fanout::kernels {
namespace {

struct Add {
  template <class T>
  __device__ void operator()(T& y, const T& a, const T& b) const {
    y = static_cast<T>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b));
  }
};

struct Subtract {
  template <class T>
  __device__ void operator()(T& y, const T& a, const T& b) const {
    y = a - b;
  }
};

struct Multiply {
  template <class T>
  __device__ void operator()(T& y, const T& a, const T& b) const {
    y = a * b;
  }
};

struct Divide {
  template <class T>
  __device__ void operator()(T& y, const T& a, const T& b) const {
    y = a / b;
  }
};

template <class T>
struct Scale {
  T alpha;
  __device__ void operator()(T& y, const T& x) const { y = alpha * x; }
};

template <class T>
struct AddScalar {
  T value;
  __device__ void operator()(T& y, const T& x) const { y = x + value; }
};

template <class T>
struct ScaleAndAccumulate {
  T alpha, beta;
  __device__ void operator()(T& y, const T& x) const { y = alpha * x + beta * y; }
};

template <class T>
struct Set {
  T value;
  __device__ void operator()(T& y) const { y = value; }
};

struct Exp {
  template <class T>
  __device__ void operator()(T& y, const T& x) const {
    y = std::exp(x);
  }
};

struct Log {
  template <class T>
  __device__ void operator()(T& y, const T& x) const {
    y = std::log(x);
  }
};

struct Sqrt {
  template <class T>
  __device__ void operator()(T& y, const T& x) const {
    y = std::sqrt(x);
  }
};

// Threads as in elementwise_kernel; every thread reads the one factor, which the caches serve. Moves 2 n sizeof(T)
// bytes.
template <int kCount, class T>
__global__ void scale_by_kernel(T* y, const T* x, const T* factor, T alpha, std::int64_t n) {
  apply_to_elements<kCount>(Scale<T>{alpha * factor[0]}, n, y, x);
}

// As scale_by_kernel, without a vector to read. Moves n sizeof(T) bytes.
template <int kCount, class T>
__global__ void expand_scalar_kernel(T* y, const T* x, T alpha, std::int64_t n) {
  apply_to_elements<kCount>(Set<T>{alpha * x[0]}, n, y);
}

// One block, one row [inner] of y (and every gridDim.x-th after it), its threads side by side: for inner > 1.
// Writes outer * length * inner elements; x stays in cache for its `length` uses.
template <class T>
__global__ void expand_rows_kernel(T* y, const T* x, T alpha, std::int64_t rows, std::int64_t length,
                                   std::int64_t inner) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::int64_t from = row / length * inner;
    for (auto i : block_stride(inner)) y[row * inner + i] = alpha * x[from + i];
  }
}

// One block, one element of x, written `length` times by threads side by side: for inner = 1.
template <class T>
__global__ void expand_elements_kernel(T* y, const T* x, T alpha, std::int64_t outer, std::int64_t length) {
  for (std::int64_t o = blockIdx.x; o < outer; o += gridDim.x) {
    const T value = alpha * x[o];
    for (auto l : block_stride(length)) y[o * length + l] = value;
  }
}

}  // namespace

template <class T>
cudaError_t add(cudaStream_t stream, T* y, const T* a, const T* b, std::int64_t n) {
  return elementwise(stream, n, Add{}, y, a, b);
}

template <class T>
cudaError_t subtract(cudaStream_t stream, T* y, const T* a, const T* b, std::int64_t n) {
  return elementwise(stream, n, Subtract{}, y, a, b);
}

template <class T>
cudaError_t multiply(cudaStream_t stream, T* y, const T* a, const T* b, std::int64_t n) {
  return elementwise(stream, n, Multiply{}, y, a, b);
}

template <class T>
cudaError_t divide(cudaStream_t stream, T* y, const T* a, const T* b, std::int64_t n) {
  return elementwise(stream, n, Divide{}, y, a, b);
}

template <class T>
cudaError_t scale(cudaStream_t stream, T* y, const T* x, T alpha, std::int64_t n) {
  return elementwise(stream, n, Scale<T>{alpha}, y, x);
}

template <class T>
cudaError_t add_scalar(cudaStream_t stream, T* y, const T* x, T value, std::int64_t n) {
  return elementwise(stream, n, AddScalar<T>{value}, y, x);
}

template <class T>
cudaError_t axpby(cudaStream_t stream, T* y, T alpha, const T* x, T beta, std::int64_t n) {
  if (beta == T(0)) return scale(stream, y, x, alpha, n);
  return elementwise(stream, n, ScaleAndAccumulate<T>{alpha, beta}, y, x);
}

template <class T>
cudaError_t scale_by(cudaStream_t stream, T* y, const T* x, const T* factor, T alpha, std::int64_t n) {
  if (n < 0) return cudaErrorInvalidValue;
  if (n == 0) return cudaSuccess;
  constexpr int kCount = kPackElements<T>;
  if (packable<kCount>(y, x)) {
    return launch<scale_by_kernel<kCount, T>>(stream, elementwise_shape((n + kCount - 1) / kCount), y, x, factor, alpha,
                                              n);
  }
  return launch<scale_by_kernel<1, T>>(stream, elementwise_shape(n), y, x, factor, alpha, n);
}

template <class T>
cudaError_t exp(cudaStream_t stream, T* y, const T* x, std::int64_t n) {
  return elementwise(stream, n, Exp{}, y, x);
}

template <class T>
cudaError_t log(cudaStream_t stream, T* y, const T* x, std::int64_t n) {
  return elementwise(stream, n, Log{}, y, x);
}

template <class T>
cudaError_t sqrt(cudaStream_t stream, T* y, const T* x, std::int64_t n) {
  return elementwise(stream, n, Sqrt{}, y, x);
}

template <class T>
cudaError_t expand_scalar(cudaStream_t stream, T* y, const T* x, T alpha, std::int64_t n) {
  if (n < 0) return cudaErrorInvalidValue;
  if (n == 0) return cudaSuccess;
  constexpr int kCount = kPackElements<T>;
  if (packable<kCount>(y)) {
    return launch<expand_scalar_kernel<kCount, T>>(stream, elementwise_shape((n + kCount - 1) / kCount), y, x, alpha,
                                                   n);
  }
  return launch<expand_scalar_kernel<1, T>>(stream, elementwise_shape(n), y, x, alpha, n);
}

template <class T>
cudaError_t expand_along(cudaStream_t stream, T* y, const T* x, T alpha, std::int64_t outer, std::int64_t length,
                         std::int64_t inner) {
  if (outer < 0 || length < 0 || inner < 0) return cudaErrorInvalidValue;
  if (outer == 0 || length == 0 || inner == 0) return cudaSuccess;
  if (inner == 1) {
    return launch<expand_elements_kernel<T>>(stream, shape_of_rows<1>(outer, length), y, x, alpha, outer, length);
  }
  const std::int64_t rows = outer * length;
  return launch<expand_rows_kernel<T>>(stream, shape_of_rows<1>(rows, inner), y, x, alpha, rows, length, inner);
}

#define FANOUT_INSTANTIATE(T)                                                           \
  template cudaError_t add(cudaStream_t, T*, const T*, const T*, std::int64_t);         \
  template cudaError_t subtract(cudaStream_t, T*, const T*, const T*, std::int64_t);    \
  template cudaError_t multiply(cudaStream_t, T*, const T*, const T*, std::int64_t);    \
  template cudaError_t divide(cudaStream_t, T*, const T*, const T*, std::int64_t);      \
  template cudaError_t scale(cudaStream_t, T*, const T*, T, std::int64_t);              \
  template cudaError_t add_scalar(cudaStream_t, T*, const T*, T, std::int64_t);         \
  template cudaError_t axpby(cudaStream_t, T*, T, const T*, T, std::int64_t);           \
  template cudaError_t scale_by(cudaStream_t, T*, const T*, const T*, T, std::int64_t); \
  template cudaError_t exp(cudaStream_t, T*, const T*, std::int64_t);                   \
  template cudaError_t log(cudaStream_t, T*, const T*, std::int64_t);                   \
  template cudaError_t sqrt(cudaStream_t, T*, const T*, std::int64_t);                  \
  template cudaError_t expand_scalar(cudaStream_t, T*, const T*, T, std::int64_t);      \
  template cudaError_t expand_along(cudaStream_t, T*, const T*, T, std::int64_t, std::int64_t, std::int64_t)
FANOUT_INSTANTIATE(float);
FANOUT_INSTANTIATE(double);
template cudaError_t scale(cudaStream_t, std::int64_t*, const std::int64_t*, std::int64_t, std::int64_t);
template cudaError_t axpby(cudaStream_t, std::int64_t*, std::int64_t, const std::int64_t*, std::int64_t, std::int64_t);
template cudaError_t add(cudaStream_t, __nv_bfloat16*, const __nv_bfloat16*, const __nv_bfloat16*, std::int64_t);
template cudaError_t add(cudaStream_t, std::int64_t*, const std::int64_t*, const std::int64_t*, std::int64_t);
template cudaError_t add(cudaStream_t, std::uint8_t*, const std::uint8_t*, const std::uint8_t*, std::int64_t);
template cudaError_t add_scalar(cudaStream_t, std::int64_t*, const std::int64_t*, std::int64_t, std::int64_t);
#undef FANOUT_INSTANTIATE

}  // namespace fanout::kernels
