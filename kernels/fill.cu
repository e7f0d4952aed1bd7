// SPDX-License-Identifier: Apache-2.0
// Constant values: writes n sizeof(T) bytes, reads none. Threads: see elementwise.cuh.
#include "kernels/fill.h"

#include "kernels/elementwise.cuh"

namespace fanout::kernels {
namespace {

template <class T>
struct Fill {
  T value;
  __device__ void operator()(T& y) const { y = value; }
};

}  // namespace

template <class T>
cudaError_t fill(cudaStream_t stream, T* y, T value, std::int64_t n) {
  return elementwise(stream, n, Fill<T>{value}, y);
}

template cudaError_t fill(cudaStream_t, float*, float, std::int64_t);
template cudaError_t fill(cudaStream_t, double*, double, std::int64_t);
template cudaError_t fill(cudaStream_t, __nv_bfloat16*, __nv_bfloat16, std::int64_t);
template cudaError_t fill(cudaStream_t, std::int64_t*, std::int64_t, std::int64_t);
template cudaError_t fill(cudaStream_t, std::uint8_t*, std::uint8_t, std::int64_t);

}  // namespace fanout::kernels
