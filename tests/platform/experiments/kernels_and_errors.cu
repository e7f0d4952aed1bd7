// SPDX-License-Identifier: Apache-2.0
// Experiments 1, 2, 5, 10, 16: launches, sticky errors, limits, reach of kernels, last errors.
#include <cublas_v2.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "tests/platform/experiments/answers.h"

using namespace fanout::test;

namespace {

__global__ void add_one_kernel(int* y, const int* x) {
  y[0] = x[0] + 1;
}

cudaError_t launch(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream, int* y, const int* x) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, add_one_kernel, y, x);
}

cudaError_t add_one(cudaStream_t stream, int* y, const int* x) {
  return launch(dim3(1), dim3(1), 0, stream, y, x);
}

}  // namespace

TEST_CASE("experiment 1: a launch into a stream of another device") {
  NEEDS_DEVICES(2);
  (void)cudaGetLastError();
  Malloced<int> value(1);
  value.set({0});
  TestStream queue;
  {
    OnDevice one(1);
    answer(1, "a launch into a stream of another device", add_one(queue.stream, value.pointer, value.pointer), 400);
    answer(1, "the last error after it", cudaGetLastError(), 400);
    answer(1, "a synchronisation of the current device after it", cudaDeviceSynchronize(), 0);
  }
  answer(1, "a synchronisation of the stream's device after it", cudaDeviceSynchronize(), 0);
  answer(1, "what the kernel has written", value.get()[0], 0);
}

// Device 1 has an error that stays.
TEST_CASE("child: experiment 2", "[.]") {
  Malloced<int> here(1);
  here.set({0});
  REQUIRE_OK(cudaSetDevice(1));
  TestStream queue;
  cudaEvent_t event = nullptr;
  cublasHandle_t blas = nullptr;
  int* block = nullptr;
  REQUIRE_OK(cudaEventCreate(&event));
  REQUIRE(cublasCreate(&blas) == CUBLAS_STATUS_SUCCESS);
  REQUIRE_OK(cudaMalloc(&block, sizeof *block));
  REQUIRE_OK(add_one(queue.stream, block, here.pointer));  // no access to memory of device 0
  answer(2, "the synchronisation that notices error 700", cudaStreamSynchronize(queue.stream), 700);
  answer(2, "an allocation on the broken device", cudaMalloc(&block, sizeof *block), 700);

  void* other = nullptr;
  answer(2, "making another device current", cudaSetDevice(0), 0);
  answer(2, "an allocation there", cudaMalloc(&other, 16), 0);
  answer(2, "a kernel there", add_one(nullptr, here.pointer, here.pointer), 0);
  answer(2, "a synchronisation there", cudaDeviceSynchronize(), 0);
  int in_thread = -1;
  std::thread([&] { in_thread = cudaDeviceSynchronize(); }).join();
  answer(2, "a synchronisation there in a new thread", in_thread, 0);

  REQUIRE_OK(cudaSetDevice(1));
  answer(2, "cudaFree on the broken device", cudaFree(block), 700);
  answer(2, "cudaEventDestroy there", cudaEventDestroy(event), kAny);
  answer(2, "cublasDestroy there", cublasDestroy(blas), kAny);
  answer(2, "cudaStreamDestroy there", cudaStreamDestroy(queue.stream), kAny);
  queue.stream = nullptr;
  answer(2, "cudaDeviceReset there", cudaDeviceReset(), kAny);
  answer(2, "an allocation there after the reset", cudaMalloc(&other, 16), 700);
}
TEST_CASE("experiment 2: one broken device among good ones") {
  NEEDS_DEVICES(2);
  answer_in_child(2, "a broken device", "child: experiment 2");
}

TEST_CASE("experiment 5: launches over a limit") {
  (void)cudaGetLastError();
  Malloced<int> value(1);
  value.set({0});
  int opt_in = 0;
  REQUIRE_OK(cudaDeviceGetAttribute(&opt_in, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  const auto code = [&](dim3 grid, dim3 block, std::size_t bytes) {
    const cudaError_t error = launch(grid, block, bytes, nullptr, value.pointer, value.pointer);
    (void)cudaGetLastError();
    return error;
  };
  answer(5, "48 KiB and a byte of dynamic shared memory", code(dim3(1), dim3(1), (48 << 10) + 1), 9);
  answer(5, "opting in to a byte more than there can be",
         cudaFuncSetAttribute(add_one_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, opt_in + 1), 1);
  (void)cudaGetLastError();
  answer(5, "a grid of 2^31 blocks", code(dim3(0x80000000u), dim3(1), 0), 9);
  answer(5, "65 536 blocks in y", code(dim3(1, 65536), dim3(1), 0), 9);
  answer(5, "65 threads in z", code(dim3(1), dim3(1, 1, 65), 0), 9);
  answer(5, "1 025 threads", code(dim3(1), dim3(1025), 0), 9);
  answer(5, "a launch after all of these", code(dim3(1), dim3(1), 0), 0);
}

// A kernel of device 1 reads pool memory of device 0.
TEST_CASE("child: experiment 10", "[.]") {
  const std::string access = std::getenv("FANOUT_EXPERIMENT_ACCESS");
  TestStream owner;
  int* from_pool = nullptr;
  REQUIRE_OK(cudaMallocAsync(&from_pool, sizeof(int), owner.stream));
  REQUIRE_OK(cudaMemsetAsync(from_pool, 0, sizeof(int), owner.stream));
  REQUIRE_OK(cudaStreamSynchronize(owner.stream));
  if (access == "pool" || access == "both") {
    cudaMemPool_t pool = nullptr;
    REQUIRE_OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    const cudaMemAccessDesc description{{cudaMemLocationTypeDevice, 1}, cudaMemAccessFlagsProtReadWrite};
    REQUIRE_OK(cudaMemPoolSetAccess(pool, &description, 1));
  }
  REQUIRE_OK(cudaSetDevice(1));
  if (access == "peer" || access == "both") REQUIRE_OK(cudaDeviceEnablePeerAccess(0, 0));
  Malloced<int> result(1);
  result.set({5});
  TestStream queue;
  if (access == "pool") {
    REQUIRE_OK(cudaMemcpyPeerAsync(from_pool, 0, result.pointer, 1, sizeof(int), queue.stream));
    answer(10, "a peer copy into a pool after cudaMemPoolSetAccess", cudaStreamSynchronize(queue.stream), 0);
  }
  REQUIRE_OK(add_one(queue.stream, result.pointer, from_pool));
  const bool may = access == "pool" || access == "both";
  answer(10, "a kernel reads a peer's pool with " + access + " access", cudaStreamSynchronize(queue.stream),
         may ? 0 : 700);
  if (access == "pool") answer(10, "what the peer copy has written, and 1", result.get()[0], 6);
}
TEST_CASE("experiment 10: a peer's pool") {
  NEEDS_DEVICES(2);
  int can = 0;
  REQUIRE_OK(cudaDeviceCanAccessPeer(&can, 1, 0));
  if (!can) {
    WARN("not run: needs two devices that can be peers");
    return;
  }
  for (const char* access : {"no", "peer", "pool", "both"})
    answer_in_child(10, std::string("with ") + access + " access", "child: experiment 10",
                    {{"FANOUT_EXPERIMENT_ACCESS", access}});
}

TEST_CASE("child: experiment 16 without a device", "[.]") {
  int count = 77;
  answer(16, "cudaGetDeviceCount without a device", cudaGetDeviceCount(&count), 100);
  answer(16, "the count after it", count, 77);
  answer(16, "the last error after it", cudaPeekAtLastError(), 100);
}
TEST_CASE("experiment 16: which errors are remembered") {
  (void)cudaGetLastError();
  answer(16, "a device that does not exist", cudaSetDevice(-1), 101);
  answer(16, "the last error in this thread", cudaPeekAtLastError(), 101);
  int other = -1;
  std::thread([&] { other = cudaPeekAtLastError(); }).join();
  answer(16, "the last error in another thread", other, 0);
  (void)cudaGetLastError();
  void* pointer = nullptr;
  answer(16, "an allocation of 2^60 bytes", cudaMalloc(&pointer, std::size_t{1} << 60), 2);
  answer(16, "the last error after it", cudaGetLastError(), 2);
  answer(16, "an allocation of 16 bytes after it", cudaMalloc(&pointer, 16), 0);
  REQUIRE_OK(cudaFree(pointer));
  TestStream queue;
  answer(16, "a query of an idle stream", cudaStreamQuery(queue.stream), 0);
  int can = 0;
  if (device_count() > 1) REQUIRE_OK(cudaDeviceCanAccessPeer(&can, 0, 1));
  if (can) {
    REQUIRE_OK(cudaDeviceEnablePeerAccess(1, 0));
    answer(16, "peer access enabled twice", cudaDeviceEnablePeerAccess(1, 0), 704);
    answer(16, "the last error after it", cudaGetLastError(), 704);
    REQUIRE_OK(cudaDeviceDisablePeerAccess(1));
  }
  answer_in_child(16, "no device", "child: experiment 16 without a device", {{"CUDA_VISIBLE_DEVICES", ""}});
}
