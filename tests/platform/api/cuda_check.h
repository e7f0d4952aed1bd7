// SPDX-License-Identifier: Apache-2.0
// Short forms for the tests of the CUDA runtime's contract.
#pragma once

#include <cuda_runtime.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <vector>

#define REQUIRE_OK(call) REQUIRE((call) == cudaSuccess)

namespace fanout::test {

inline int device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

/// Makes a device current and goes back to device 0 at the end of the scope.
struct OnDevice {
  explicit OnDevice(int device) { REQUIRE_OK(cudaSetDevice(device)); }
  ~OnDevice() { (void)cudaSetDevice(0); }
};

/// Memory of the current device from cudaMalloc.
template <class T>
struct Malloced {
  explicit Malloced(std::size_t elements_) : elements(elements_) {
    REQUIRE_OK(cudaMalloc(&pointer, elements * sizeof(T)));
  }
  ~Malloced() { (void)cudaFree(pointer); }
  Malloced(const Malloced&) = delete;
  Malloced& operator=(const Malloced&) = delete;

  void set(const std::vector<T>& values) {
    REQUIRE_OK(cudaMemcpy(pointer, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    REQUIRE_OK(cudaDeviceSynchronize());
  }
  std::vector<T> get() const {
    std::vector<T> values(elements);
    REQUIRE_OK(cudaMemcpy(values.data(), pointer, elements * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

  std::size_t elements;
  T* pointer = nullptr;
};

/// A non-blocking stream of the current device.
struct TestStream {
  TestStream() { REQUIRE_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  ~TestStream() { (void)cudaStreamDestroy(stream); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  cudaStream_t stream = nullptr;
};

}  // namespace fanout::test

/// Leaves a test that needs more devices than there are; the simulated platform always has enough.
#define NEEDS_DEVICES(number)                          \
  if (fanout::test::device_count() < (number)) {       \
    WARN("not run: needs " << (number) << " devices"); \
    return;                                            \
  }                                                    \
  static_cast<void>(0)
