// SPDX-License-Identifier: Apache-2.0
// Two kernels do the rows: one thread a row where it fits in registers (10 classes), else one block a row.
#include "kernels/cross_entropy.h"

#include <cmath>

#include "kernels/block_fold.cuh"
#include "kernels/exponential.cuh"
#include "kernels/launch.cuh"
#include "kernels/reduce.h"

namespace fanout::kernels {
namespace {

template <class T>
inline constexpr T kNotANumber = std::numeric_limits<T>::quiet_NaN();

// visit(0)…visit(cols - 1). Registers can't be indexed, so on a GPU the loop has kWidth rounds, to be unrolled.
template <int kWidth, class Visit>
__device__ void for_each_class(int cols, Visit visit) {
  constexpr bool kUnroll = kLanes == 1;
  for (int c = 0; c < (kUnroll ? kWidth : cols); ++c) {
    if (!kUnroll || c < cols) visit(c);
  }
}

// One thread, kLanes rows of at most kWidth columns, held in registers, or in vectors with a lane for each row;
// neighbouring threads share the cache lines of their rows. Moves rows * (2 * cols * sizeof(T) + 8 + sizeof(T)) bytes.
template <class T, int kWidth>
__global__ void cross_entropy_narrow_kernel(T* row_losses, T* dlogits, const T* logits, const std::int64_t* labels,
                                            T scale, std::int64_t rows, int cols) {
  for (auto group : grid_stride((rows + kLanes - 1) / kLanes)) {
    const std::int64_t first = group * kLanes;
    const int count = rows - first < kLanes ? int(rows - first) : kLanes;
    T value[kWidth][kLanes], max[kLanes], sum[kLanes], factor[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      const T* const row = logits + (first + (lane < count ? lane : 0)) * cols;  // spare lanes repeat the first row
      for_each_class<kWidth>(cols, [&](int c) { value[c][lane] = row[c]; });
    }
    for (int lane = 0; lane < kLanes; ++lane) max[lane] = -kInfinity<T>;
    for_each_class<kWidth>(cols, [&](int c) {
      for (int lane = 0; lane < kLanes; ++lane) max[lane] = Max{}(max[lane], value[c][lane]);
    });
    for (int lane = 0; lane < kLanes; ++lane) sum[lane] = T(0);
    for_each_class<kWidth>(cols, [&](int c) {
      for (int lane = 0; lane < kLanes; ++lane) value[c][lane] = exponential(value[c][lane] - max[lane]);
      for (int lane = 0; lane < kLanes; ++lane) sum[lane] += value[c][lane];
    });
    for (int lane = 0; lane < count; ++lane) {
      const std::int64_t label = labels[first + lane];
      const bool valid = label >= 0 && label < cols;
      const T target = valid ? logits[(first + lane) * cols + label] : kNotANumber<T>;
      row_losses[first + lane] = std::log(sum[lane]) - (target - max[lane]);
      factor[lane] = valid ? scale / sum[lane] : kNotANumber<T>;
    }
    if (dlogits == nullptr) continue;
    for (int lane = 0; lane < count; ++lane) {
      T* const out = dlogits + (first + lane) * cols;
      for_each_class<kWidth>(cols, [&](int c) { out[c] = value[c][lane] * factor[lane]; });
      const std::int64_t label = labels[first + lane];
      if (label >= 0 && label < cols) out[label] -= scale;
    }
  }
}

// One block, one row at a time. Moves rows * (2 * cols * sizeof(T) + 8 + sizeof(T)) bytes if a row stays in cache:
// dlogits holds the exponentials until they are divided.
template <class T>
__global__ void cross_entropy_wide_kernel(T* row_losses, T* dlogits, const T* logits, const std::int64_t* labels,
                                          T scale, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* const in = logits + row * cols;
    T* const out = dlogits + row * cols;
    const std::int64_t label = labels[row];
    const bool valid = label >= 0 && label < cols;
    const T target = valid ? in[label] : kNotANumber<T>;  // before the fold, whose barrier comes before the first store
    const T max = block_fold(cols, -kInfinity<T>, Max{}, [=](std::int64_t i) { return in[i]; });
    const auto term = [=](std::int64_t i) { return exponential(in[i] - max); };
    const T sum =
        dlogits == nullptr ? block_fold(cols, T(0), Sum{}, term) : block_map_fold(cols, out, T(0), Sum{}, term);
    if (threadIdx.x == 0) row_losses[row] = std::log(sum) - (target - max);
    if (dlogits == nullptr) continue;
    const T factor = valid ? scale / sum : kNotANumber<T>;
    block_map(cols, out, [=](std::int64_t i) { return out[i] * factor; });
    if (valid && owns_element(label)) out[label] -= scale;
  }
}

template <class T>
cudaError_t cross_entropy_rows(cudaStream_t stream, T* row_losses, T* dlogits, const T* logits,
                               const std::int64_t* labels, T scale, std::int64_t rows, std::int64_t cols) {
  if (cols <= 16) {
    return launch<cross_entropy_narrow_kernel<T, 16>>(stream, elementwise_shape((rows + kLanes - 1) / kLanes),
                                                      row_losses, dlogits, logits, labels, scale, rows, int(cols));
  }
  return launch<cross_entropy_wide_kernel<T>>(stream, row_loop_shape(rows, cols), row_losses, dlogits, logits, labels,
                                              scale, rows, cols);
}

}  // namespace

template <class T>
cudaError_t cross_entropy(cudaStream_t stream, T* loss, T* row_losses, T* dlogits, const T* logits,
                          const std::int64_t* labels, T scale, std::int64_t rows, std::int64_t cols) {
  if (rows < 0 || cols < 0) return cudaErrorInvalidValue;
  if (rows > 0) {
    const cudaError_t error = cross_entropy_rows(stream, row_losses, dlogits, logits, labels, scale, rows, cols);
    if (error != cudaSuccess) return error;
  }
  T* const no_workspace = nullptr;
  return sum_along(stream, loss, row_losses, no_workspace, scale, false, 1, rows, 1);
}

#define FANOUT_INSTANTIATE(T)                                                                                  \
  template cudaError_t cross_entropy(cudaStream_t, T*, T*, T*, const T*, const std::int64_t*, T, std::int64_t, \
                                     std::int64_t);
FANOUT_INSTANTIATE(float)
FANOUT_INSTANTIATE(double)
#undef FANOUT_INSTANTIATE

}  // namespace fanout::kernels
