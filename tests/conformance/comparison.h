// SPDX-License-Identifier: Apache-2.0
// Inputs of any floating type, and comparisons by shape, dtype and value, for the tests against torch's behaviour.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "runtime/device/context.h"
#include "runtime/tensor/copy.h"
#include "tests/runtime/parallel/test_nets.h"

namespace fanout::test {

/// Largest difference that sums in another order may leave in values around 1.
template <class T>
inline constexpr double kRounding = std::is_same_v<T, double> ? 1e-12 : 1e-5;

/// The same numbers in [-1, 1) every time, on `device`, as a leaf.
template <class T>
Tensor numbers_of(const Shape& shape, Device device, int seed = 1) {
  const std::vector<double> wide = to_vector<double>(numbers(shape, seed));
  return copied_to(from_vector(std::vector<T>(wide.begin(), wide.end()), shape), device);
}
inline Tensor numbers_on(Device device, const Shape& shape, int seed = 1) {
  return numbers_of<double>(shape, device, seed);
}

/// A leaf on `device` with the elements of `values`, which requires a gradient.
inline Tensor leaf_on(Device device, const Tensor& values) {
  return copied_to(values, device).set_requires_grad();
}

/// The elements as doubles; none for an undefined tensor.
inline std::vector<double> elements_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  return dispatch_any(tensor.dtype(), [&]<class Tag>(Tag) {
    std::vector<double> wide;
    for (const auto element : to_vector<typename Tag::type>(tensor)) {
      if constexpr (std::is_same_v<typename Tag::type, __nv_bfloat16>) {
        wide.push_back(__bfloat162float(element));
      } else {
        wide.push_back(static_cast<double>(element));
      }
    }
    return wide;
  });
}

/// Largest difference of two tensors' elements; infinite where shape or dtype differ or one is undefined.
inline double difference(const Tensor& a, const Tensor& b) {
  if (!a.defined() || !b.defined() || a.dtype() != b.dtype() || !(a.shape() == b.shape())) return INFINITY;
  return largest_difference(elements_of(a), elements_of(b));
}

/// The devices of `indices`, in their order.
inline std::vector<Device> devices_of(const std::vector<int>& indices) {
  return {indices.begin(), indices.end()};
}
inline std::vector<int> all_ids() {
  std::vector<int> ids;
  for (int index = 0; index < device_count(); ++index) ids.push_back(index);
  return ids;
}

/// Bytes that tensors hold on `device` once all queued work is done.
inline std::uint64_t bytes_in_use(Device device) {
  synchronize(device);
  cudaMemPool_t pool = nullptr;
  FANOUT_CHECK(cudaDeviceGetDefaultMemPool(&pool, device.index()));
  std::uint64_t bytes = 0;
  FANOUT_CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &bytes));
  return bytes;
}

}  // namespace fanout::test
