// SPDX-License-Identifier: Apache-2.0
// Devices: count, current device, properties, versions.
#include <cstring>
#include <string>
#include <thread>

#include "tests/platform/api/child_process.h"
#include "tests/platform/api/cuda_check.h"

using namespace fanout::test;

TEST_CASE("there is at least one device and device 0 is current") {
  int count = 0, device = -1;
  REQUIRE_OK(cudaGetDeviceCount(&count));
  REQUIRE(count >= 1);
  REQUIRE_OK(cudaGetDevice(&device));
  REQUIRE(device == 0);
}

TEST_CASE("the current device belongs to the host thread, and a new thread is on device 0") {
  NEEDS_DEVICES(2);
  OnDevice last(device_count() - 1);
  int seen = -1;
  std::thread([&] { (void)cudaGetDevice(&seen); }).join();
  REQUIRE(seen == 0);
  int mine = -1;
  REQUIRE_OK(cudaGetDevice(&mine));
  REQUIRE(mine == device_count() - 1);
}

TEST_CASE("a device outside the list is refused with 101 and the current device stays") {
  const int bad = GENERATE(-1, device_count(), 1000);
  REQUIRE(cudaSetDevice(bad) == cudaErrorInvalidDevice);
  int device = -1, value = 7;
  REQUIRE_OK(cudaGetDevice(&device));
  REQUIRE(device == 0);
  cudaDeviceProp properties;
  REQUIRE(cudaGetDeviceProperties(&properties, bad) == cudaErrorInvalidDevice);
  REQUIRE(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, bad) == cudaErrorInvalidDevice);
  REQUIRE(value == 7);
  REQUIRE(cudaGetLastError() == cudaErrorInvalidDevice);
}

TEST_CASE("properties name the device, its memory and the limits of a launch") {
  cudaDeviceProp properties;
  REQUIRE_OK(cudaGetDeviceProperties(&properties, 0));
  REQUIRE(std::strlen(properties.name) > 0);
  REQUIRE(properties.totalGlobalMem > 0);
  REQUIRE(properties.multiProcessorCount > 0);
  REQUIRE(properties.warpSize == 32);
  REQUIRE(properties.maxThreadsPerBlock == 1024);
  REQUIRE(properties.maxThreadsDim[2] == 64);
  REQUIRE(properties.maxGridSize[0] == 0x7fffffff);
  REQUIRE(properties.maxGridSize[1] == 65535);
  REQUIRE(properties.sharedMemPerBlock == 48 << 10);
  REQUIRE(properties.major >= 7);
  REQUIRE(properties.unifiedAddressing == 1);
}

TEST_CASE("attributes agree with the properties") {
  cudaDeviceProp properties;
  REQUIRE_OK(cudaGetDeviceProperties(&properties, 0));
  const auto attribute = [](cudaDeviceAttr which) {
    int value = -1;
    REQUIRE_OK(cudaDeviceGetAttribute(&value, which, 0));
    return value;
  };
  REQUIRE(attribute(cudaDevAttrMultiProcessorCount) == properties.multiProcessorCount);
  REQUIRE(attribute(cudaDevAttrComputeCapabilityMajor) == properties.major);
  REQUIRE(attribute(cudaDevAttrMaxThreadsPerBlock) == properties.maxThreadsPerBlock);
  REQUIRE(attribute(cudaDevAttrPciBusId) == properties.pciBusID);
  REQUIRE(attribute(cudaDevAttrMemoryPoolsSupported) == 1);
}

TEST_CASE("a null result or an unknown attribute is 1") {
  int value = 0;
  REQUIRE(cudaDeviceGetAttribute(nullptr, cudaDevAttrWarpSize, 0) == cudaErrorInvalidValue);
  REQUIRE(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(9999), 0) == cudaErrorInvalidValue);
  REQUIRE(cudaGetLastError() == cudaErrorInvalidValue);
}

TEST_CASE("every device has a bus address of its own that finds it again") {
  std::string previous;
  for (int device = 0; device < device_count(); ++device) {
    char text[13] = "";
    REQUIRE_OK(cudaDeviceGetPCIBusId(text, sizeof text, device));
    REQUIRE(std::strlen(text) == 12);
    REQUIRE(text != previous);
    previous = text;
    int found = -1;
    REQUIRE_OK(cudaDeviceGetByPCIBusId(&found, text));
    REQUIRE(found == device);
  }
  char text[12];
  REQUIRE(cudaDeviceGetPCIBusId(text, sizeof text, 0) == cudaErrorInvalidValue);
  REQUIRE(cudaDeviceGetPCIBusId(nullptr, 13, 0) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST_CASE("the runtime's version is that of its header") {
  int runtime = 0, driver = 0;
  REQUIRE_OK(cudaRuntimeGetVersion(&runtime));
  REQUIRE_OK(cudaDriverGetVersion(&driver));
  REQUIRE(runtime == CUDART_VERSION);
  REQUIRE(driver >= runtime);
  REQUIRE(cudaRuntimeGetVersion(nullptr) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST_CASE("free memory is at most the total and shrinks with an allocation") {
  std::size_t free_before = 0, free_after = 0, total = 0;
  REQUIRE_OK(cudaMemGetInfo(&free_before, &total));
  REQUIRE(free_before <= total);
  {
    Malloced<char> block(64 << 20);
    REQUIRE_OK(cudaMemGetInfo(&free_after, &total));
    REQUIRE(free_after + (64 << 20) <= free_before);
  }
  REQUIRE(cudaMemGetInfo(nullptr, &total) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST_CASE("child: reset the device", "[.]") {
  void *malloced = nullptr, *pooled = nullptr;
  REQUIRE_OK(cudaMalloc(&malloced, 1000));
  REQUIRE_OK(cudaMallocAsync(&pooled, 1000, cudaStreamPerThread));
  REQUIRE_OK(cudaStreamSynchronize(cudaStreamPerThread));
  REQUIRE_OK(cudaDeviceReset());
  REQUIRE(cudaFree(malloced) == cudaErrorInvalidValue);
  REQUIRE_OK(cudaFree(pooled));
  REQUIRE_OK(cudaMalloc(&malloced, 1000));
  REQUIRE_OK(cudaStreamSynchronize(cudaStreamPerThread));
}
TEST_CASE("a reset frees cudaMalloc memory, not pool memory, and the device works again") {
  const ChildResult child = run_in_child("child: reset the device");
  INFO(child.output);
  REQUIRE(child.exit_status == 0);
}

TEST_CASE("many threads may use all devices at once") {
  std::vector<std::thread> threads;
  std::vector<int> results(8, -1);
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([i, &results] {
      const int device = i % device_count();
      bool good = cudaSetDevice(device) == cudaSuccess;
      cudaStream_t stream = nullptr;
      good = good && cudaStreamCreate(&stream) == cudaSuccess;
      for (int round = 0; good && round < 200; ++round) {
        int *own = nullptr, value = i * 1000 + round, back = -1;
        good = cudaMallocAsync(&own, sizeof(int) * (round + 1), stream) == cudaSuccess &&
               cudaMemcpyAsync(own + round, &value, sizeof value, cudaMemcpyHostToDevice, stream) == cudaSuccess &&
               cudaMemcpyAsync(&back, own + round, sizeof back, cudaMemcpyDeviceToHost, stream) == cudaSuccess &&
               cudaFreeAsync(own, stream) == cudaSuccess && cudaStreamSynchronize(stream) == cudaSuccess &&
               back == value;
        if (round % 16 == 0) good = good && cudaDeviceSynchronize() == cudaSuccess;
      }
      results[i] = good && cudaStreamDestroy(stream) == cudaSuccess;
    });
  for (auto& thread : threads) thread.join();
  REQUIRE(results == std::vector<int>(8, 1));
}
