// SPDX-License-Identifier: Apache-2.0
// A typed array in the memory of one device, for tests: filled and read with plain copies.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

#include <catch2/catch.hpp>

namespace fanout::tests {

/// Makes a device current, and the former one again at the end.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    cudaGetDevice(&before_);
    cudaSetDevice(device);
  }
  ~CurrentDevice() { cudaSetDevice(before_); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = 0;
};

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values, int device = 0) : size_(values.size()), device_(device) {
    const CurrentDevice current(device_);
    void* memory = nullptr;
    REQUIRE(cudaMalloc(&memory, size_ * sizeof(T)) == cudaSuccess);
    data_ = static_cast<T*>(memory);
    write(values);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(DeviceArray&& other) noexcept : data_(other.data_), size_(other.size_), device_(other.device_) {
    other.data_ = nullptr;
  }
  DeviceArray& operator=(DeviceArray&&) = delete;

  T* data() const { return data_; }
  std::size_t size() const { return size_; }

  void write(const std::vector<T>& values) {
    const CurrentDevice current(device_);
    REQUIRE(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
  std::vector<T> read() const {
    const CurrentDevice current(device_);
    std::vector<T> values(size_);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess);
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
  int device_ = 0;
};

}  // namespace fanout::tests
