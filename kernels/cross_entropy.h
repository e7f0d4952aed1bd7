// SPDX-License-Identifier: Apache-2.0
// Cross entropy of integer labels, forward and backward at once.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace fanout::kernels {

/// row_losses[r] = log(sum of exp(logits[r])) - logits[r, labels[r]]; loss = scale * (sum of row_losses);
/// dlogits = scale * (softmax(logits) - onehot(labels)). The mean over rows is scale = 1 / rows.
///   loss        [1]           device pointer
///   row_losses  [rows]        device pointer
///   dlogits     [rows, cols]  device pointer or null; may be logits
///   logits      [rows, cols]  device pointer
///   labels      [rows]        device pointer, each in [0, cols)
/// A label outside [0, cols) gives NaN in its row of dlogits, in its row loss, and so in the loss: it cannot go
/// unnoticed, and it reads and writes nothing out of bounds. No rows: loss is scale * 0. Deterministic. T is float or
/// double. Queued on `stream`, does not wait. Returns the launch's error, or cudaErrorInvalidValue for a
/// negative size.
template <class T>
[[nodiscard]] cudaError_t cross_entropy(cudaStream_t stream, T* loss, T* row_losses, T* dlogits, const T* logits,
                                        const std::int64_t* labels, T scale, std::int64_t rows, std::int64_t cols);

}  // namespace fanout::kernels
