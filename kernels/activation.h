// SPDX-License-Identifier: Apache-2.0
// Activation functions and their backwards.
//
// All: T is float or double; arguments are [n] device pointers of any alignment (fastest at 16 bytes); the output may
// be an input and may not overlap one otherwise. Queued on `stream`, does not wait. Returns the launch's error,
// cudaErrorInvalidValue for n < 0. NaN in, NaN out. dy is the gradient of the loss by y, dx by x.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace fanout::kernels {

/// y = max(x, 0); also for bf16
template <class T>
[[nodiscard]] cudaError_t relu(cudaStream_t stream, T* y, const T* x, std::int64_t n);

/// dx = dy where y > 0 (or NaN), else 0. `y` is relu's output; its input serves as well.
template <class T>
[[nodiscard]] cudaError_t relu_backward(cudaStream_t stream, T* dx, const T* dy, const T* y, std::int64_t n);

/// y = x Φ(x) = x/2 (1 + erf(x/√2)), the exact form. Source: arXiv:1606.08415, section 2; torch's default.
template <class T>
[[nodiscard]] cudaError_t gelu(cudaStream_t stream, T* y, const T* x, std::int64_t n);

/// dx = dy (Φ(x) + x φ(x)), φ(x) = exp(-x²/2)/√(2π). `x` is gelu's input.
template <class T>
[[nodiscard]] cudaError_t gelu_backward(cudaStream_t stream, T* dx, const T* dy, const T* x, std::int64_t n);

/// y = tanh(x)
template <class T>
[[nodiscard]] cudaError_t tanh(cudaStream_t stream, T* y, const T* x, std::int64_t n);

/// dx = dy (1 - y²). `y` is tanh's output.
template <class T>
[[nodiscard]] cudaError_t tanh_backward(cudaStream_t stream, T* dx, const T* dy, const T* y, std::int64_t n);

/// y = 1 / (1 + e^-x), without overflow at either end.
template <class T>
[[nodiscard]] cudaError_t sigmoid(cudaStream_t stream, T* y, const T* x, std::int64_t n);

/// dx = dy y (1 - y). `y` is sigmoid's output.
template <class T>
[[nodiscard]] cudaError_t sigmoid_backward(cudaStream_t stream, T* dx, const T* dy, const T* y, std::int64_t n);

}  // namespace fanout::kernels
