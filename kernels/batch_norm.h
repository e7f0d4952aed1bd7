// SPDX-License-Identifier: Apache-2.0
// Batch normalisation over the columns of a matrix (arXiv:1502.03167), as torch.nn.BatchNorm1d on [rows, cols].
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

// Device pointers, T float or double; matrices are [rows, cols], everything else [cols]. gamma and beta may be null for
// 1 and 0, dgamma and dbeta where they are not wanted. Queued on `stream`, does not wait; returns the launch's error,
// or cudaErrorInvalidValue for a negative size. Deterministic. With no rows the training forward writes nothing.
namespace fanout::kernels {

/// y = (x - mean) * rstd * gamma + beta with, for each column, its mean, its variance (divided by rows, in a second
/// pass) and rstd = 1 / sqrt(variance + eps); y may be x. mean and rstd are outputs, for the backward. The running
/// statistics may be null; else running = (1 - momentum) * running + momentum * new, where the new variance is divided
/// by rows - 1 (for a single row, which torch refuses, it is 0).
template <class T>
[[nodiscard]] cudaError_t batch_norm_training(cudaStream_t stream, T* y, T* mean, T* rstd, T* running_mean,
                                              T* running_var, const T* x, const T* gamma, const T* beta, T momentum,
                                              T eps, std::int64_t rows, std::int64_t cols);

/// y = (x - running_mean) / sqrt(running_var + eps) * gamma + beta; y may be x.
template <class T>
[[nodiscard]] cudaError_t batch_norm_evaluation(cudaStream_t stream, T* y, const T* x, const T* running_mean,
                                                const T* running_var, const T* gamma, const T* beta, T eps,
                                                std::int64_t rows, std::int64_t cols);

/// With xhat = (x - mean) * rstd: dbeta = column sums of dy, dgamma = column sums of dy * xhat (or += where
/// `accumulate_parameters`), dx = gamma * rstd * (dy - sum of dy / rows - xhat * sum of dy * xhat / rows).
/// mean and rstd are what batch_norm_training gave; dx may be dy or x.
template <class T>
[[nodiscard]] cudaError_t batch_norm_backward(cudaStream_t stream, T* dx, T* dgamma, T* dbeta, const T* dy, const T* x,
                                              const T* mean, const T* rstd, const T* gamma, bool accumulate_parameters,
                                              std::int64_t rows, std::int64_t cols);

/// The backward of batch_norm_evaluation, whose statistics are constants: dx = dy * gamma / sqrt(running_var + eps),
/// dgamma and dbeta as in batch_norm_backward with the running statistics; dx may be dy or x.
template <class T>
[[nodiscard]] cudaError_t batch_norm_evaluation_backward(cudaStream_t stream, T* dx, T* dgamma, T* dbeta, const T* dy,
                                                         const T* x, const T* running_mean, const T* running_var,
                                                         const T* gamma, T eps, bool accumulate_parameters,
                                                         std::int64_t rows, std::int64_t cols);

}  // namespace fanout::kernels
