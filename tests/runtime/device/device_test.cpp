// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/device.h"

#include <catch2/catch.hpp>
#include <thread>

#include "runtime/device/blas.h"
#include "runtime/device/context.h"
#include "runtime/device/error.h"
#include "runtime/tensor/tensor.h"

using namespace fanout;
using Catch::Matchers::Contains;

TEST_CASE("a device prints as cuda:N, the host as cpu, and both are read back") {
  CHECK(Device(2).name() == "cuda:2");
  CHECK(Device::host().name() == "cpu");
  CHECK(Device::parse("cuda:13") == Device(13));
  CHECK(Device::parse("cpu") == Device::host());
  CHECK(names({Device(1), Device::host()}) == "cuda:1, cpu");
}

TEST_CASE("text that is no device is refused with what is allowed") {
  for (const char* text : {"", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "gpu:0", "CPU", "cuda:99999999999"}) {
    CHECK_THROWS_WITH(Device::parse(text),
                      "'" + std::string(text) + "' is no device: write \"cuda:N\" with N from 0, or \"cpu\"");
  }
}

TEST_CASE("DeviceGuard restores the current device, also when an exception passes") {
  int current = -1;
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  {
    const DeviceGuard guard(Device(2));
    REQUIRE(cudaGetDevice(&current) == cudaSuccess);
    CHECK(current == 2);
    try {
      const DeviceGuard inner(Device(1));
      throw 1;
    } catch (int) {
    }
    REQUIRE(cudaGetDevice(&current) == cudaSuccess);
    CHECK(current == 2);
    const DeviceGuard host(Device::host());
    REQUIRE(cudaGetDevice(&current) == cudaSuccess);
    CHECK(current == 2);
  }
  REQUIRE(cudaGetDevice(&current) == cudaSuccess);
  CHECK(current == 0);
}

TEST_CASE("an unknown device names the ids that exist") {
  CHECK_THROWS_AS(require_device(Device(device_count())), InvalidArgument);
  CHECK_THROWS_WITH(context(Device(device_count())), Contains("does not exist: this process sees"));
}

TEST_CASE(
    "a failed call is an exception with the code, the call, the place and the device, and leaves no error behind") {
  try {
    FANOUT_CHECK(cudaSetDevice(99));
    FAIL("no exception");
  } catch (const CudaError& error) {
    CHECK(error.code() == cudaErrorInvalidDevice);
    CHECK_THAT(error.what(), Contains("cudaSetDevice(99) failed: invalid device ordinal (cudaErrorInvalidDevice)"));
    CHECK_THAT(error.what(), Contains("device_test.cpp"));
    CHECK_THAT(error.what(), Contains("cuda:0"));
  }
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK_THROWS_AS(FANOUT_CHECK(CUBLAS_STATUS_INVALID_VALUE), CublasError);
  CHECK_THROWS_AS(FANOUT_CHECK(ncclInvalidArgument), NcclError);
}

TEST_CASE("all threads get one context for a device") {
  DeviceContext* found[4];
  std::vector<std::thread> threads;
  for (auto& place : found) threads.emplace_back([&place] { place = &context(Device(1)); });
  for (std::thread& thread : threads) thread.join();
  for (DeviceContext* place : found) CHECK(place == found[0]);
}

TEST_CASE("gemm multiplies row-major matrices in all four transposes and adds beta C") {
  // A = [[1, 2, 3], [4, 5, 6]], B = [[1, 0], [2, 1], [0, 3]]: A B = [[5, 11], [14, 23]]
  const std::vector<double> a{1, 2, 3, 4, 5, 6}, a_transposed{1, 4, 2, 5, 3, 6};
  const std::vector<double> b{1, 0, 2, 1, 0, 3}, b_transposed{1, 2, 0, 0, 1, 3};
  const auto on_device = [](const std::vector<double>& values) {
    void* pointer = nullptr;
    FANOUT_CHECK(cudaMalloc(&pointer, values.size() * sizeof(double)));
    FANOUT_CHECK(cudaMemcpy(pointer, values.data(), values.size() * sizeof(double), cudaMemcpyHostToDevice));
    FANOUT_CHECK(cudaDeviceSynchronize());  // pageable memory is only staged when the copy returns
    return static_cast<double*>(pointer);
  };
  for (const Op op_a : {Op::none, Op::transpose}) {
    for (const Op op_b : {Op::none, Op::transpose}) {
      double* first = on_device(op_a == Op::none ? a : a_transposed);
      double* second = on_device(op_b == Op::none ? b : b_transposed);
      double* c = on_device({100, 200, 300, 400});
      gemm<double>(Device(0), op_a, op_b, 2, 2, 3, 2.0, first, second, 1.0, c);
      std::vector<double> result(4);
      synchronize(Device(0));
      REQUIRE(cudaMemcpy(result.data(), c, 32, cudaMemcpyDeviceToHost) == cudaSuccess);
      CHECK(result == std::vector<double>{110, 222, 328, 446});
      for (double* pointer : {first, second, c}) REQUIRE(cudaFree(pointer) == cudaSuccess);
    }
  }
  CHECK_THROWS_WITH(
      gemm<float>(Device(0), Op::none, Op::none, std::int64_t{1} << 31, 1, 1, 1, nullptr, nullptr, 0, nullptr),
      Contains("2^31 - 1"));
}
