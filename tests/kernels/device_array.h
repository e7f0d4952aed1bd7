// SPDX-License-Identifier: Apache-2.0
// A vector on the current device with guard words on both sides, for tests of kernels.
#pragma once

#include <cuda_runtime.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <vector>

namespace fanout::kernels {

/// Owns n elements on the device and 64 guard elements before and after them, which must stay as they are: to_host()
/// and the destructor check that. `shift` moves the start by so many elements off its 256-byte alignment.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values, int shift = 0)
      : size_(static_cast<std::int64_t>(values.size())), first_(kGuard + shift) {
    std::vector<T> all = guards();
    std::copy(values.begin(), values.end(), all.begin() + first_);
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&memory_), all.size() * sizeof(T)) == cudaSuccess);
    REQUIRE(cudaMemcpy(memory_, all.data(), all.size() * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess);
  }

  /// n elements that hold 0xFF bytes: NaN, -1 or 255. A kernel that reads its output shows it.
  static DeviceArray unset(std::int64_t n, int shift = 0) {
    std::vector<T> values(static_cast<std::size_t>(n));
    if (n > 0) std::memset(static_cast<void*>(values.data()), 0xFF, values.size() * sizeof(T));
    return DeviceArray(values, shift);
  }

  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  ~DeviceArray() {
    if (guarded_) CHECK(guards_intact());
    CHECK(cudaFree(memory_) == cudaSuccess);
  }

  T* data() const { return memory_ + first_; }
  std::int64_t size() const { return size_; }

  /// The elements, after everything queued on the device is done.
  std::vector<T> to_host() const {
    CHECK(guards_intact());
    const std::vector<T> all = everything();
    return {all.begin() + first_, all.begin() + first_ + size_};
  }

  bool guards_intact() const {
    std::vector<T> all = everything(), expected = guards();
    std::copy(all.begin() + first_, all.begin() + first_ + size_, expected.begin() + first_);
    return std::memcmp(all.data(), expected.data(), all.size() * sizeof(T)) == 0;
  }

  /// For tests that break the guards on purpose: the destructor won't check them.
  void drop_guards() { guarded_ = false; }

 private:
  static constexpr std::int64_t kGuard = 64;

  std::vector<T> guards() const {
    std::vector<T> all(static_cast<std::size_t>(first_ + size_ + kGuard));
    std::memset(static_cast<void*>(all.data()), 0xA5, all.size() * sizeof(T));
    return all;
  }
  std::vector<T> everything() const {
    std::vector<T> all(static_cast<std::size_t>(first_ + size_ + kGuard));
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(cudaMemcpy(all.data(), memory_, all.size() * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess);
    return all;
  }

  T* memory_ = nullptr;
  std::int64_t size_;
  std::int64_t first_;
  bool guarded_ = true;
};

}  // namespace fanout::kernels
