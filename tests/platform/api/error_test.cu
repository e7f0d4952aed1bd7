// SPDX-License-Identifier: Apache-2.0
// The error model, the texts, and the limits of a launch.
#include <string>
#include <thread>

#include "tests/platform/api/cuda_check.h"

using namespace fanout::test;

namespace {

__global__ void count_kernel(int* y) {
  y[0] += 1;
}

cudaError_t launch(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream, int* y) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, count_kernel, y);
}

}  // namespace

TEST_CASE("a failing call is the last error until it is read, a success does not clear it") {
  (void)cudaGetLastError();
  REQUIRE(cudaSetDevice(-1) == cudaErrorInvalidDevice);
  REQUIRE_OK(cudaDeviceSynchronize());
  REQUIRE(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  REQUIRE(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  REQUIRE(cudaGetLastError() == cudaErrorInvalidDevice);
  REQUIRE(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("the last error belongs to the host thread") {
  (void)cudaGetLastError();
  cudaError_t other = cudaErrorUnknown;
  std::thread([&] {
    (void)cudaSetDevice(-1);
    other = cudaGetLastError();
  }).join();
  REQUIRE(other == cudaErrorInvalidDevice);
  REQUIRE(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("names and texts of errors are those of the real library") {
  const auto name = [](int code) { return std::string(cudaGetErrorName(static_cast<cudaError_t>(code))); };
  const auto text = [](int code) { return std::string(cudaGetErrorString(static_cast<cudaError_t>(code))); };
  REQUIRE(name(0) == "cudaSuccess");
  REQUIRE(text(0) == "no error");
  REQUIRE(name(1) == "cudaErrorInvalidValue");
  REQUIRE(text(1) == "invalid argument");
  REQUIRE(text(2) == "out of memory");
  REQUIRE(text(9) == "invalid configuration argument");
  REQUIRE(text(100) == "no CUDA-capable device is detected");
  REQUIRE(text(101) == "invalid device ordinal");
  REQUIRE(text(222) == "the provided PTX was compiled with an unsupported toolchain.");
  REQUIRE(text(226) == "Invalid access of peer GPU memory over nvlink or a hardware error");
  REQUIRE(text(400) == "invalid resource handle");
  REQUIRE(name(700) == "cudaErrorIllegalAddress");
  REQUIRE(text(700) == "an illegal memory access was encountered");
  REQUIRE(text(704) == "peer access is already enabled");
  REQUIRE(text(906) == "operation would make the legacy stream depend on a capturing blocking stream");
  REQUIRE(text(911) == "an async error has occured in external entity outside of CUDA");
  REQUIRE(text(999) == "unknown error");
  REQUIRE(name(5000) == "unrecognized error code");
  REQUIRE(text(5000) == "unrecognized error code");
}

TEST_CASE("a grid or block of 0, or beyond the limits, is 9 and runs nothing") {
  (void)cudaGetLastError();
  Malloced<int> count(1);
  count.set({0});
  const auto refused = [&](dim3 grid, dim3 block) {
    return launch(grid, block, 0, nullptr, count.pointer) == cudaErrorInvalidConfiguration;
  };
  REQUIRE(refused(dim3(0), dim3(1)));
  REQUIRE(refused(dim3(1), dim3(0)));
  REQUIRE(refused(dim3(1, 65536), dim3(1)));
  REQUIRE(refused(dim3(1, 1, 65536), dim3(1)));
  REQUIRE(refused(dim3(0x80000000u), dim3(1)));
  REQUIRE(refused(dim3(1), dim3(1025)));
  REQUIRE(refused(dim3(1), dim3(1, 1, 65)));
  REQUIRE(refused(dim3(1), dim3(64, 32)));
  REQUIRE(cudaGetLastError() == cudaErrorInvalidConfiguration);
  REQUIRE_OK(launch(dim3(1), dim3(1), 0, nullptr, count.pointer));
  REQUIRE(count.get() == std::vector<int>{1});
}

TEST_CASE("more dynamic shared memory than 48 KiB must be opted in to") {
  (void)cudaGetLastError();
  Malloced<int> count(1);
  count.set({0});
  REQUIRE_OK(launch(dim3(1), dim3(1), 48 << 10, nullptr, count.pointer));
  REQUIRE(launch(dim3(1), dim3(1), (48 << 10) + 1, nullptr, count.pointer) != cudaSuccess);
  REQUIRE(cudaGetLastError() != cudaSuccess);
  REQUIRE_OK(cudaFuncSetAttribute(count_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 60 << 10));
  REQUIRE_OK(launch(dim3(1), dim3(1), 60 << 10, nullptr, count.pointer));
  REQUIRE(count.get() == std::vector<int>{2});
  REQUIRE(cudaFuncSetAttribute(count_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20) ==
          cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST_CASE("a launch needs the stream's device to be current") {
  NEEDS_DEVICES(2);
  (void)cudaGetLastError();
  Malloced<int> count(1);
  count.set({0});
  TestStream queue;
  {
    OnDevice one(1);
    REQUIRE(launch(dim3(1), dim3(1), 0, queue.stream, count.pointer) == cudaErrorInvalidResourceHandle);
    REQUIRE(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  }
  REQUIRE_OK(launch(dim3(1), dim3(1), 0, queue.stream, count.pointer));
  REQUIRE_OK(cudaStreamSynchronize(queue.stream));
  REQUIRE(count.get() == std::vector<int>{1});
}

TEST_CASE("occupancy and attributes of a kernel are positive") {
  cudaFuncAttributes attributes;
  REQUIRE_OK(cudaFuncGetAttributes(&attributes, count_kernel));
  REQUIRE(attributes.maxThreadsPerBlock > 0);
  REQUIRE(attributes.numRegs > 0);
  int blocks = 0, grid = 0, block = 0;
  REQUIRE_OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, count_kernel, 256, 0));
  REQUIRE(blocks > 0);
  REQUIRE_OK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, count_kernel, 0, 0));
  REQUIRE(grid > 0);
  REQUIRE(block % 32 == 0);
  REQUIRE(cudaFuncGetAttributes(&attributes, static_cast<const void*>(nullptr)) == cudaErrorInvalidDeviceFunction);
  (void)cudaGetLastError();
}
