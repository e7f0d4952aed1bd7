// SPDX-License-Identifier: Apache-2.0
// Type conversion: moves n (sizeof(To) + sizeof(From)) bytes. Threads: see elementwise.cuh.
#include "kernels/convert.h"

#include "kernels/elementwise.cuh"

namespace fanout::kernels {
namespace {

template <class To, class From>
struct Convert {
  static constexpr bool kInFloat = std::is_same_v<To, float> && (std::is_same_v<From, float> || sizeof(From) == 1);
  using Product = std::conditional_t<kInFloat, float, double>;
  Product scale;
  __device__ void operator()(To& y, const From& x) const { y = static_cast<To>(static_cast<Product>(x) * scale); }
};

}  // namespace

template <class To, class From>
cudaError_t convert(cudaStream_t stream, To* y, const From* x, double scale, std::int64_t n) {
  using F = Convert<To, From>;
  return elementwise(stream, n, F{static_cast<typename F::Product>(scale)}, y, x);
}

template cudaError_t convert(cudaStream_t, float*, const std::uint8_t*, double, std::int64_t);
template cudaError_t convert(cudaStream_t, float*, const std::int64_t*, double, std::int64_t);
template cudaError_t convert(cudaStream_t, float*, const double*, double, std::int64_t);
template cudaError_t convert(cudaStream_t, float*, const float*, double, std::int64_t);
template cudaError_t convert(cudaStream_t, double*, const std::uint8_t*, double, std::int64_t);
template cudaError_t convert(cudaStream_t, double*, const std::int64_t*, double, std::int64_t);
template cudaError_t convert(cudaStream_t, double*, const float*, double, std::int64_t);
template cudaError_t convert(cudaStream_t, double*, const double*, double, std::int64_t);
template cudaError_t convert(cudaStream_t, std::int64_t*, const std::uint8_t*, double, std::int64_t);

}  // namespace fanout::kernels
