// SPDX-License-Identifier: Apache-2.0
// Layer normalisation over the rows of a matrix (arXiv:1607.06450).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

// Device pointers, T float or double. Queued on `stream`, does not wait; returns the launch's error, or
// cudaErrorInvalidValue for a negative size. Deterministic.
// With no columns nothing is written.
namespace fanout::kernels {

/// y = (x - mean) * rstd * gamma + beta with, for each row, its mean, its variance (divided by cols, in a second pass)
/// and rstd = 1 / sqrt(variance + eps).
///   y, x         [rows, cols]  y may be x
///   mean, rstd   [rows]        outputs, for the backward
///   gamma, beta  [cols]        null for 1 and 0
template <class T>
[[nodiscard]] cudaError_t layer_norm(cudaStream_t stream, T* y, T* mean, T* rstd, const T* x, const T* gamma,
                                     const T* beta, T eps, std::int64_t rows, std::int64_t cols);

/// With xhat = (x - mean) * rstd and g = dy * gamma: dx = rstd * (g - row mean of g - xhat * row mean of g * xhat),
/// dgamma = column sums of dy * xhat, dbeta = column sums of dy (or += where `accumulate_parameters`).
///   dx, dy, x      [rows, cols]  dx may be dy or x
///   dgamma, dbeta  [cols]        null where not wanted
///   mean, rstd     [rows]        what layer_norm gave
///   gamma          [cols]        null for 1
template <class T>
[[nodiscard]] cudaError_t layer_norm_backward(cudaStream_t stream, T* dx, T* dgamma, T* dbeta, const T* dy, const T* x,
                                              const T* mean, const T* rstd, const T* gamma, bool accumulate_parameters,
                                              std::int64_t rows, std::int64_t cols);

}  // namespace fanout::kernels
