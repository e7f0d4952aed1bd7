// SPDX-License-Identifier: Apache-2.0
// Device memory for the tests of kernels.
#pragma once

#include <cuda_runtime.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <vector>

/// Elements on the current device, with a way back.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values) : size_(values.size()) {
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&data_), size_ * sizeof(T)) == cudaSuccess);
    REQUIRE(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);  // a copy from pageable memory returns when it is staged
  }
  explicit DeviceArray(std::size_t size, T value = T()) : DeviceArray(std::vector<T>(size, value)) {}
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { static_cast<void>(cudaFree(data_)); }

  T* data() { return data_; }

  /// Waits for the device, then copies back.
  std::vector<T> read() const {
    std::vector<T> values(size_);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess);
    return values;
  }

 private:
  std::size_t size_;
  T* data_ = nullptr;
};
