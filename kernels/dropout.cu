// SPDX-License-Identifier: Apache-2.0
// Dropout with a counter-based mask.
#include "kernels/dropout.h"

#include "kernels/elementwise.cuh"
#include "kernels/fill.h"
#include "kernels/philox.cuh"

namespace fanout::kernels {
namespace {

constexpr int kQuad = 4;  // elements served by one Philox call

template <class T>
struct Mask {
  std::uint64_t seed, offset;
  std::uint32_t first_kept;  // p 2^32: a random word below it drops its element
  T scale;

  __device__ Pack<T, kQuad> apply(Pack<T, kQuad> x, std::int64_t quad) const {
    const std::uint64_t counter = offset + static_cast<std::uint64_t>(quad);
    const PhiloxWords random =
        philox4x32_10({{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), 0, 0}},
                      static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
    Pack<T, kQuad> y;
    for (int k = 0; k < kQuad; ++k) {
      const T scaled = x.values[k] * scale;
      y.values[k] = random.words[k] < first_kept ? T(0) : scaled;
    }
    return y;
  }
};

// One thread, four elements (one Philox call), as one load and store where kPacked; the last 1 to 3 elements go to
// one thread. Moves 2 n sizeof(T) bytes.
template <bool kPacked, class T>
__global__ void dropout_kernel(T* y, const T* x, Mask<T> mask, std::int64_t n) {
  using P = Pack<T, kQuad>;
  for (auto quad : grid_stride(n / kQuad)) {
    if constexpr (kPacked) {
      reinterpret_cast<P*>(y)[quad] = mask.apply(reinterpret_cast<const P*>(x)[quad], quad);
    } else {
      const T* const from = x + quad * kQuad;
      const P kept = mask.apply({{from[0], from[1], from[2], from[3]}}, quad);
      for (int k = 0; k < kQuad; ++k) y[quad * kQuad + k] = kept.values[k];
    }
  }
  const std::int64_t done = n / kQuad * kQuad;
  for (auto quad : grid_stride(done < n ? 1 : 0)) {
    P rest{};
    for (int k = 0; k < kQuad - 1; ++k) {
      if (done + k < n) rest.values[k] = x[done + k];
    }
    rest = mask.apply(rest, done / kQuad + quad);
    for (int k = 0; k < kQuad - 1; ++k) {
      if (done + k < n) y[done + k] = rest.values[k];
    }
  }
}

}  // namespace

template <class T>
cudaError_t dropout(cudaStream_t stream, T* y, const T* x, T p, std::uint64_t seed, std::uint64_t offset,
                    std::int64_t n) {
  if (n < 0 || !(p >= T(0) && p <= T(1))) return cudaErrorInvalidValue;
  if (n == 0) return cudaSuccess;
  if (p == T(1)) return fill(stream, y, T(0), n);
  const double first_kept = std::min(static_cast<double>(p) * 4294967296.0, 4294967295.0);
  const Mask<T> mask{seed, offset, static_cast<std::uint32_t>(first_kept), T(1) / (T(1) - p)};
  const LaunchShape shape = elementwise_shape((n + kQuad - 1) / kQuad);
  if (packable<kQuad>(y, x)) return launch<dropout_kernel<true, T>>(stream, shape, y, x, mask, n);
  return launch<dropout_kernel<false, T>>(stream, shape, y, x, mask, n);
}

template cudaError_t dropout(cudaStream_t, float*, const float*, float, std::uint64_t, std::uint64_t, std::int64_t);
template cudaError_t dropout(cudaStream_t, double*, const double*, double, std::uint64_t, std::uint64_t, std::int64_t);

}  // namespace fanout::kernels
