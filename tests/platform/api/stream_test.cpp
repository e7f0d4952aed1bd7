// SPDX-License-Identifier: Apache-2.0
// Streams and host functions.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/platform/api/cuda_check.h"

using namespace fanout::test;

TEST_CASE("a stream knows its device, flags and priority") {
  OnDevice last(device_count() - 1);
  int least = -1, greatest = 1;
  REQUIRE_OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  REQUIRE(greatest <= least);
  REQUIRE_OK(cudaDeviceGetStreamPriorityRange(nullptr, nullptr));
  cudaStream_t stream = nullptr;
  REQUIRE_OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest - 100));
  unsigned flags = 99;
  int priority = 99, device = -1;
  REQUIRE_OK(cudaStreamGetFlags(stream, &flags));
  REQUIRE_OK(cudaStreamGetPriority(stream, &priority));
  REQUIRE_OK(cudaStreamGetDevice(stream, &device));
  REQUIRE(flags == cudaStreamNonBlocking);
  REQUIRE(priority == greatest);  // clamped, not refused
  REQUIRE(device == device_count() - 1);
  REQUIRE_OK(cudaStreamDestroy(stream));
}

TEST_CASE("the default stream is that of the current device and cannot be destroyed") {
  OnDevice last(device_count() - 1);
  int device = -1;
  REQUIRE_OK(cudaStreamGetDevice(nullptr, &device));
  REQUIRE(device == device_count() - 1);
  REQUIRE_OK(cudaStreamSynchronize(nullptr));
  REQUIRE_OK(cudaStreamSynchronize(cudaStreamLegacy));
  REQUIRE_OK(cudaStreamSynchronize(cudaStreamPerThread));
  REQUIRE(cudaStreamDestroy(nullptr) == cudaErrorInvalidResourceHandle);
  (void)cudaGetLastError();
}

TEST_CASE("stream ids are unique for the life of the program") {
  unsigned long long first = 0, second = 0;
  cudaStream_t stream = nullptr;
  REQUIRE_OK(cudaStreamCreate(&stream));
  REQUIRE_OK(cudaStreamGetId(stream, &first));
  REQUIRE_OK(cudaStreamDestroy(stream));
  REQUIRE_OK(cudaStreamCreate(&stream));
  REQUIRE_OK(cudaStreamGetId(stream, &second));
  REQUIRE_OK(cudaStreamDestroy(stream));
  REQUIRE(first != second);
}

TEST_CASE("a null result or an unknown flag is 1") {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreate(nullptr) == cudaErrorInvalidValue);
  REQUIRE(cudaStreamCreateWithFlags(&stream, 0x80) == cudaErrorInvalidValue);
  REQUIRE(cudaStreamGetFlags(nullptr, nullptr) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST_CASE("streams are usable whatever device is current, and are destroyed from any") {
  NEEDS_DEVICES(2);
  cudaStream_t stream = nullptr;
  REQUIRE_OK(cudaStreamCreate(&stream));
  OnDevice one(1);
  REQUIRE_OK(cudaStreamSynchronize(stream));
  REQUIRE_OK(cudaStreamQuery(stream));
  REQUIRE_OK(cudaStreamDestroy(stream));
}

namespace {
struct Journal {
  cudaStream_t stream;
  std::atomic<int> calls{0};
  std::atomic<int> error{-1};
};
}  // namespace

TEST_CASE("a host function runs after the earlier work of its stream") {
  TestStream queue;
  int *device_value = nullptr, *pinned = nullptr, seen = 0;
  REQUIRE_OK(cudaMallocHost(&pinned, sizeof(int)));
  *pinned = 0;
  const int value = 11;
  REQUIRE_OK(cudaMallocAsync(&device_value, sizeof(int), queue.stream));
  REQUIRE_OK(cudaMemcpyAsync(device_value, &value, sizeof value, cudaMemcpyHostToDevice, queue.stream));
  REQUIRE_OK(cudaMemcpyAsync(pinned, device_value, sizeof value, cudaMemcpyDeviceToHost, queue.stream));
  int* both[] = {pinned, &seen};
  const auto look = [](void* data) { *static_cast<int**>(data)[1] = *static_cast<int**>(data)[0]; };
  REQUIRE_OK(cudaLaunchHostFunc(queue.stream, look, both));
  REQUIRE_OK(cudaFreeAsync(device_value, queue.stream));
  REQUIRE_OK(cudaStreamSynchronize(queue.stream));
  REQUIRE(seen == 11);
  REQUIRE_OK(cudaFreeHost(pinned));
}

TEST_CASE("no CUDA call is permitted in a host function") {
  TestStream queue;
  Journal journal{queue.stream};
  const auto call_cuda = [](void* data) {
    auto& entry = *static_cast<Journal*>(data);
    ++entry.calls;
    entry.error = cudaStreamQuery(entry.stream);
  };
  REQUIRE_OK(cudaLaunchHostFunc(queue.stream, call_cuda, &journal));
  REQUIRE_OK(cudaStreamSynchronize(queue.stream));
  REQUIRE(journal.calls == 1);
  REQUIRE(journal.error == cudaErrorNotPermitted);
  REQUIRE(cudaLaunchHostFunc(queue.stream, nullptr, nullptr) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST_CASE("a stream with work on it is not ready: 600, which is no last error") {
  TestStream queue;
  struct Gate {
    std::atomic<bool> entered{false}, open{false};
  } gate;
  const auto wait = [](void* data) {
    auto& held = *static_cast<Gate*>(data);
    held.entered = true;
    while (!held.open) std::this_thread::yield();
  };
  (void)cudaGetLastError();
  // The launch is in a thread of its own, since a platform may run the function at the call.
  std::thread launcher([&] { (void)cudaLaunchHostFunc(queue.stream, wait, &gate); });
  while (!gate.entered) std::this_thread::yield();
  const cudaError_t busy = cudaStreamQuery(queue.stream);
  const cudaError_t last = cudaPeekAtLastError();
  gate.open = true;
  launcher.join();
  REQUIRE(busy == cudaErrorNotReady);
  REQUIRE(last == cudaSuccess);
  REQUIRE_OK(cudaStreamSynchronize(queue.stream));
  REQUIRE_OK(cudaStreamQuery(queue.stream));
}

TEST_CASE("cudaDeviceSynchronize waits for the streams of all host threads") {
  TestStream queue;
  std::atomic<bool> entered{false};
  struct Work {
    std::atomic<bool>& entered;
    int steps = 0;
  } work{entered};
  const auto slow = [](void* data) {
    auto& running = *static_cast<Work*>(data);
    running.entered = true;
    for (int i = 0; i < 20; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++running.steps;
    }
  };
  std::thread launcher([&] { (void)cudaLaunchHostFunc(queue.stream, slow, &work); });
  while (!entered) std::this_thread::yield();
  REQUIRE_OK(cudaDeviceSynchronize());
  REQUIRE(work.steps == 20);
  launcher.join();
}
