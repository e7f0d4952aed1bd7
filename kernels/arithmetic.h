// SPDX-License-Identifier: Apache-2.0
// Elementwise arithmetic and its broadcasts.
//
// Unless stated: T is float or double; vectors are [n], device pointers of any alignment (fastest at 16 bytes); y may
// be an input and may not overlap one otherwise. Queued on `stream`, does not wait. Returns the launch's error,
// cudaErrorInvalidValue for a negative size. Division by zero, logarithms and roots follow IEEE: infinities and NaN, no
// error.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace fanout::kernels {

/// y = a + b; also for bf16, rounded once, for std::int64_t, and for std::uint8_t, modulo 256
template <class T>
[[nodiscard]] cudaError_t add(cudaStream_t stream, T* y, const T* a, const T* b, std::int64_t n);

/// y = a - b
template <class T>
[[nodiscard]] cudaError_t subtract(cudaStream_t stream, T* y, const T* a, const T* b, std::int64_t n);

/// y = a * b
template <class T>
[[nodiscard]] cudaError_t multiply(cudaStream_t stream, T* y, const T* a, const T* b, std::int64_t n);

/// y = a / b
template <class T>
[[nodiscard]] cudaError_t divide(cudaStream_t stream, T* y, const T* a, const T* b, std::int64_t n);

/// y = alpha * x
template <class T>
[[nodiscard]] cudaError_t scale(cudaStream_t stream, T* y, const T* x, T alpha, std::int64_t n);

/// y = x + value; also for std::int64_t
template <class T>
[[nodiscard]] cudaError_t add_scalar(cudaStream_t stream, T* y, const T* x, T value, std::int64_t n);

/// y = alpha * x + beta * y; with beta = 0 the old y is never read, so it may be uninitialised or NaN.
template <class T>
[[nodiscard]] cudaError_t axpby(cudaStream_t stream, T* y, T alpha, const T* x, T beta, std::int64_t n);

/// y = alpha * factor[0] * x, where the factor is on the device (the gradient of a mean, a norm). factor may not be in
/// y.
template <class T>
[[nodiscard]] cudaError_t scale_by(cudaStream_t stream, T* y, const T* x, const T* factor, T alpha, std::int64_t n);

/// y = e^x
template <class T>
[[nodiscard]] cudaError_t exp(cudaStream_t stream, T* y, const T* x, std::int64_t n);

/// y = natural logarithm of x
template <class T>
[[nodiscard]] cudaError_t log(cudaStream_t stream, T* y, const T* x, std::int64_t n);

/// y = square root of x
template <class T>
[[nodiscard]] cudaError_t sqrt(cudaStream_t stream, T* y, const T* x, std::int64_t n);

/// y[i] = alpha * x[0] for i in [0, n): the backward of a sum over everything. x may not be in y.
template <class T>
[[nodiscard]] cudaError_t expand_scalar(cudaStream_t stream, T* y, const T* x, T alpha, std::int64_t n);

/// y[o, l, i] = alpha * x[o, i]: repeats x along a new middle dimension, the backward of a sum along it. y may not
/// overlap x.
///   y  [outer, length, inner]
///   x  [outer, inner]
template <class T>
[[nodiscard]] cudaError_t expand_along(cudaStream_t stream, T* y, const T* x, T alpha, std::int64_t outer,
                                       std::int64_t length, std::int64_t inner);

}  // namespace fanout::kernels
