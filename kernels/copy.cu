// SPDX-License-Identifier: Apache-2.0
// Copies within a device. All move 2 sizeof(T) bytes an element; strided sides as many sectors as their runs touch.
#include "kernels/copy.h"

#include "kernels/elementwise.cuh"

namespace fanout::kernels {
namespace {

constexpr std::int64_t kWarp = 32;

struct Copy {
  template <class T>
  __device__ void operator()(T& y, const T& x) const {
    y = x;
  }
};

// One block, one row (and every gridDim.x-th after it); its threads take the row's elements side by side. T may be a
// 16-byte pack.
template <class T>
__global__ void copy_2d_kernel(T* y, std::int64_t y_pitch, const T* x, std::int64_t x_pitch, std::int64_t rows,
                               std::int64_t cols) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    for (auto c : block_stride(cols)) y[row * y_pitch + c] = x[row * x_pitch + c];
  }
}

/// A layout with as few dimensions as possible, the last one apart: what the kernels get. Dimensions are innermost
/// first, so that loops over them can be unrolled and the layout stays in registers.
struct Runs {
  std::int64_t length = 1, stride = 1;  // of the last dimension
  int outer_rank = 0;
  std::int64_t sizes[kMaxRank - 1] = {};
  std::int64_t strides[kMaxRank - 1] = {};

  /// Where run `run` (row-major over the outer dimensions) starts in the strided tensor.
  __device__ std::int64_t offset_of(std::int64_t run) const {
    std::int64_t offset = 0;
    for (int d = 0; d < kMaxRank - 1; ++d) {
      if (d >= outer_rank) break;
      const std::int64_t next = d + 1 < outer_rank ? run / sizes[d] : 0;
      offset += (run - next * sizes[d]) * strides[d];
      run = next;
    }
    return offset;
  }
};

// One block, one run along the last dimension (and every gridDim.x-th after it), its threads side by side: one chain of
// divisions a run. The layout describes y if kScatter, else x; the other is contiguous.
template <bool kScatter, class T>
__global__ void strided_runs_kernel(T* y, const T* x, Runs layout, std::int64_t count) {
  for (std::int64_t run = blockIdx.x; run < count; run += gridDim.x) {
    const std::int64_t strided = layout.offset_of(run);
    const std::int64_t dense = run * layout.length;
    for (auto i : block_stride(layout.length)) {
      if constexpr (kScatter) {
        y[strided + i * layout.stride] = x[dense + i];
      } else {
        y[dense + i] = x[strided + i * layout.stride];
      }
    }
  }
}

// One thread, one element, for runs too short to fill a warp: a chain of divisions for every element.
template <bool kScatter, class T>
__global__ void strided_elements_kernel(T* y, const T* x, Runs layout, std::int64_t n) {
  for (auto i : grid_stride(n)) {
    const std::int64_t run = i / layout.length;
    const std::int64_t strided = layout.offset_of(run) + (i - run * layout.length) * layout.stride;
    if constexpr (kScatter) {
      y[strided] = x[i];
    } else {
      y[i] = x[strided];
    }
  }
}

bool valid(const StridedLayout& layout) {
  if (layout.rank < 0 || layout.rank > kMaxRank) return false;
  return std::all_of(layout.sizes, layout.sizes + layout.rank, [](std::int64_t size) { return size >= 0; });
}

/// The same elements in the same order, with neighbouring dimensions merged where one stride serves both. Sizes may not
/// be 0.
Runs coalesced(const StridedLayout& layout) {
  StridedLayout merged;  // innermost first
  for (int d = layout.rank - 1; d >= 0; --d) {
    if (layout.sizes[d] == 1) continue;
    const int last = merged.rank - 1;
    if (last >= 0 && layout.strides[d] == merged.sizes[last] * merged.strides[last]) {
      merged.sizes[last] *= layout.sizes[d];
    } else {
      merged.sizes[merged.rank] = layout.sizes[d];
      merged.strides[merged.rank++] = layout.strides[d];
    }
  }
  Runs runs;
  if (merged.rank == 0) return runs;
  runs.length = merged.sizes[0];
  runs.stride = merged.strides[0];
  runs.outer_rank = merged.rank - 1;
  std::copy(merged.sizes + 1, merged.sizes + merged.rank, runs.sizes);
  std::copy(merged.strides + 1, merged.strides + merged.rank, runs.strides);
  return runs;
}

template <bool kScatter, class T>
cudaError_t move_strided(cudaStream_t stream, T* y, const T* x, const StridedLayout& given) {
  if (!valid(given)) return cudaErrorInvalidValue;
  std::int64_t n = 1;
  for (int d = 0; d < given.rank; ++d) n *= given.sizes[d];
  if (n == 0) return cudaSuccess;
  const Runs layout = coalesced(given);
  const std::int64_t length = layout.length;
  if (layout.stride == 1 && layout.outer_rank == 0) return elementwise(stream, n, Copy{}, y, x);
  if (layout.stride == 1 && layout.outer_rank == 1 && (!kScatter || layout.strides[0] >= length)) {
    const std::int64_t pitch = layout.strides[0];
    return copy_2d(stream, y, kScatter ? pitch : length, x, kScatter ? length : pitch, n / length, length);
  }
  if (length >= kWarp) {
    const LaunchShape shape = shape_of_rows<1>(n / length, length);
    return launch<strided_runs_kernel<kScatter, T>>(stream, shape, y, x, layout, n / length);
  }
  return launch<strided_elements_kernel<kScatter, T>>(stream, elementwise_shape(n), y, x, layout, n);
}

}  // namespace

template <class T>
cudaError_t copy_2d(cudaStream_t stream, T* y, std::int64_t y_pitch, const T* x, std::int64_t x_pitch,
                    std::int64_t rows, std::int64_t cols) {
  if (rows < 0 || cols < 0 || (rows > 1 && y_pitch < cols)) return cudaErrorInvalidValue;
  if (rows == 0 || cols == 0) return cudaSuccess;
  if (rows == 1 || (y_pitch == cols && x_pitch == cols)) return elementwise(stream, rows * cols, Copy{}, y, x);
  constexpr int kCount = kPackElements<T>;
  if (packable<kCount>(y, x) && cols % kCount == 0 && y_pitch % kCount == 0 && x_pitch % kCount == 0) {
    using P = Pack<T, kCount>;
    const std::int64_t packs = cols / kCount;
    return launch<copy_2d_kernel<P>>(stream, shape_of_rows<kCount>(rows, packs), reinterpret_cast<P*>(y),
                                     y_pitch / kCount, reinterpret_cast<const P*>(x), x_pitch / kCount, rows, packs);
  }
  return launch<copy_2d_kernel<T>>(stream, shape_of_rows<1>(rows, cols), y, y_pitch, x, x_pitch, rows, cols);
}

template <class T>
cudaError_t copy_strided(cudaStream_t stream, T* y, const T* x, const StridedLayout& x_layout) {
  return move_strided<false>(stream, y, x, x_layout);
}

template <class T>
cudaError_t scatter_strided(cudaStream_t stream, T* y, const StridedLayout& y_layout, const T* x) {
  return move_strided<true>(stream, y, x, y_layout);
}

#define FANOUT_INSTANTIATE(T)                                                                                       \
  template cudaError_t copy_2d(cudaStream_t, T*, std::int64_t, const T*, std::int64_t, std::int64_t, std::int64_t); \
  template cudaError_t copy_strided(cudaStream_t, T*, const T*, const StridedLayout&);                              \
  template cudaError_t scatter_strided(cudaStream_t, T*, const StridedLayout&, const T*)
FANOUT_INSTANTIATE(float);
FANOUT_INSTANTIATE(double);
FANOUT_INSTANTIATE(__nv_bfloat16);
FANOUT_INSTANTIATE(std::int64_t);
FANOUT_INSTANTIATE(std::uint8_t);
#undef FANOUT_INSTANTIATE

}  // namespace fanout::kernels
