// SPDX-License-Identifier: Apache-2.0
// Type conversion: moves n (sizeof(To) + sizeof(From)) bytes. Threads: see elementwise.cuh.
#include "kernels/convert.h"

#include "kernels/elementwise.cuh"
#include "kernels/wide.h"

namespace fanout::kernels {
namespace {

template <class To, class From>
struct Convert {
  static constexpr bool kInFloat =
      std::is_same_v<Wide<To>, float> && (std::is_same_v<Wide<From>, float> || sizeof(From) == 1);
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

#define FANOUT_INSTANTIATE(To)                                                                \
  template cudaError_t convert(cudaStream_t, To*, const std::uint8_t*, double, std::int64_t); \
  template cudaError_t convert(cudaStream_t, To*, const std::int64_t*, double, std::int64_t); \
  template cudaError_t convert(cudaStream_t, To*, const float*, double, std::int64_t);        \
  template cudaError_t convert(cudaStream_t, To*, const double*, double, std::int64_t);       \
  template cudaError_t convert(cudaStream_t, To*, const __nv_bfloat16*, double, std::int64_t)
FANOUT_INSTANTIATE(float);
FANOUT_INSTANTIATE(double);
FANOUT_INSTANTIATE(__nv_bfloat16);
#undef FANOUT_INSTANTIATE
template cudaError_t convert(cudaStream_t, std::int64_t*, const std::uint8_t*, double, std::int64_t);

}  // namespace fanout::kernels
