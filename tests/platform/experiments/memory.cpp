// SPDX-License-Identifier: Apache-2.0
// Experiments 7, 8, 9, 11, 17, 19: memory, pointers, copies.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/platform/experiments/answers.h"
#include "tests/platform/experiments/gate.h"

using namespace fanout::test;

TEST_CASE("experiment 7: odd allocations and frees of pools") {
  (void)cudaGetLastError();
  TestStream queue;
  int* pointer = nullptr;
  answer(7, "cudaMallocAsync of 0 bytes", cudaMallocAsync(&pointer, 0, queue.stream), 1);
  answer(7, "cudaFreeAsync of NULL", cudaFreeAsync(nullptr, queue.stream), 1);
  REQUIRE_OK(cudaMallocAsync(&pointer, 4096, queue.stream));
  answer(7, "cudaFreeAsync of an inside pointer", cudaFreeAsync(pointer + 64, queue.stream), 1);
  answer(7, "cudaFreeAsync", cudaFreeAsync(pointer, queue.stream), 0);
  answer(7, "cudaFreeAsync a second time", cudaFreeAsync(pointer, queue.stream), 1);
  REQUIRE_OK(cudaStreamSynchronize(queue.stream));
  answer(7, "cudaFreeAsync again after a synchronisation", cudaFreeAsync(pointer, queue.stream), 1);
  REQUIRE_OK(cudaMalloc(&pointer, 4096));
  answer(7, "cudaFreeAsync of cudaMalloc memory", cudaFreeAsync(pointer, queue.stream), 0);
  REQUIRE_OK(cudaStreamSynchronize(queue.stream));
  REQUIRE_OK(cudaMallocAsync(&pointer, 4096, queue.stream));
  REQUIRE_OK(cudaMemsetAsync(pointer, 0, 4096, queue.stream));
  answer(7, "cudaFree of pool memory with work on it pending", cudaFree(pointer), 0);
  REQUIRE_OK(cudaStreamSynchronize(queue.stream));
  (void)cudaGetLastError();
}

namespace {

// What is known of a pointer; code, type, device, and whether there is an address for the device and for the host.
void describe(const std::string& what, const void* pointer, int code, int type, int device, int on_device,
              int on_host) {
  cudaPointerAttributes attributes{};
  const cudaError_t error = cudaPointerGetAttributes(&attributes, pointer);
  answer(8, what + ", code", error, code);
  if (error != cudaSuccess) return;
  answer(8, what + ", type", attributes.type, type);
  answer(8, what + ", device", attributes.device, device);
  answer(8, what + ", has a device address", attributes.devicePointer != nullptr, on_device);
  answer(8, what + ", has a host address", attributes.hostPointer != nullptr, on_host);
}

}  // namespace

TEST_CASE("experiment 8: what is known of pointers") {
  constexpr int kUnregistered = 0, kHost = 1, kDevice = 2, kNoDevice = -2;
  int on_stack = 0;
  describe("NULL", nullptr, 0, kUnregistered, kNoDevice, 0, 0);
  describe("the stack", &on_stack, 0, kUnregistered, kNoDevice, 0, 1);
  char* block = nullptr;
  REQUIRE_OK(cudaMalloc(&block, 4096));
  describe("device memory", block, 0, kDevice, 0, 1, 0);
  describe("the inside of device memory", block + 100, 0, kDevice, 0, 1, 0);
  REQUIRE_OK(cudaFree(block));
  cudaPointerAttributes attributes{};
  answer(8, "freed device memory, code", cudaPointerGetAttributes(&attributes, block), 0);
  answer(8, "freed device memory, type", attributes.type, kUnregistered);

  char* pinned = nullptr;
  REQUIRE_OK(cudaMallocHost(&pinned, 64));
  if (device_count() > 1) {
    OnDevice one(1);
    describe("pinned memory of device 0 with device 1 current", pinned, 0, kHost, 0, 1, 1);
  }
  REQUIRE_OK(cudaFreeHost(pinned));

  TestStream queue;
  char* from_pool = nullptr;
  REQUIRE_OK(cudaMallocAsync(&from_pool, 64, queue.stream));
  REQUIRE_OK(cudaStreamSynchronize(queue.stream));
  describe("pool memory", from_pool, 0, kDevice, 0, 1, 0);
  if (device_count() > 1) {
    OnDevice one(1);
    describe("pool memory without access", from_pool, 0, kDevice, 0, 0, 0);
  }
  REQUIRE_OK(cudaFreeAsync(from_pool, queue.stream));
  REQUIRE_OK(cudaStreamSynchronize(queue.stream));
}

TEST_CASE("experiment 9: copies and fills of nothing") {
  (void)cudaGetLastError();
  char on_stack[4] = {};
  Malloced<char> block(64);
  answer(9, "cudaMemcpy of 0 bytes with NULLs", cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDefault), 0);
  answer(9, "cudaMemcpyAsync of 0 bytes with NULLs", cudaMemcpyAsync(nullptr, nullptr, 0, cudaMemcpyDefault), 0);
  answer(9, "cudaMemcpy of 0 bytes with a kind that does not fit",
         cudaMemcpy(block.pointer, on_stack, 0, cudaMemcpyDeviceToHost), 0);
  answer(9, "cudaMemset of 0 bytes at NULL", cudaMemset(nullptr, 0, 0), 0);
  answer(9, "cudaMemset of 0 bytes on the stack", cudaMemset(on_stack, 0, 0), 0);
  answer(9, "a 2-D copy of width 0", cudaMemcpy2D(block.pointer, 8, on_stack, 4, 0, 1, cudaMemcpyHostToDevice), 0);
  answer(9, "a 2-D copy of height 0", cudaMemcpy2D(block.pointer, 8, on_stack, 4, 4, 0, cudaMemcpyHostToDevice), 0);
  answer(9, "a 2-D copy of height 0 that is wider than its pitch",
         cudaMemcpy2D(block.pointer, 2, on_stack, 4, 4, 0, cudaMemcpyHostToDevice), kAny);
  (void)cudaGetLastError();
}

TEST_CASE("experiment 11: an asynchronous copy of pageable memory behind work", "[eager]") {
  for (const std::size_t bytes : {std::size_t{4}, std::size_t{64} << 10, (std::size_t{64} << 10) + 1}) {
    Malloced<char> block(bytes);
    REQUIRE_OK(cudaMemset(block.pointer, 0, bytes));
    REQUIRE_OK(cudaDeviceSynchronize());
    std::vector<char> source(bytes, 1);
    const std::string size = std::to_string(bytes) + " bytes";
    TestStream queue;
    bool returned_early = false;
    {
      Gate gate(queue.stream);
      Attempt attempt(
          [&] { return cudaMemcpyAsync(block.pointer, source.data(), bytes, cudaMemcpyHostToDevice, queue.stream); });
      returned_early = attempt.returns_soon();
      if (returned_early) std::fill(source.begin(), source.end(), char{2});
      gate.open();
      answer(11, "an asynchronous copy of " + size + " of pageable memory", attempt.result(), 0);
    }
    REQUIRE_OK(cudaStreamSynchronize(queue.stream));
    answer(11, size + ": returns before the work in front of it is done", returned_early, kAny);
    answer(11, size + ": what arrives, 1 from before the return or 2 from after it", block.get()[0], kAny);
  }
}

namespace {

void peer_copy(const char* what) {
  int on_host = 0;
  REQUIRE_OK(cudaSetDevice(1));
  Malloced<int> there(1);
  REQUIRE_OK(cudaSetDevice(0));
  Malloced<int> here(1);
  int code = -1;
  const std::string kind = what;
  if (kind == "swapped device numbers") code = cudaMemcpyPeer(here.pointer, 1, there.pointer, 0, sizeof(int));
  if (kind == "a host pointer") code = cudaMemcpyPeer(here.pointer, 0, &on_host, 1, sizeof(int));
  if (kind == "equal devices") code = cudaMemcpyPeer(here.pointer, 0, here.pointer, 0, 0);
  answer(17, "cudaMemcpyPeer with " + kind, code, kind == "equal devices" ? 0 : kAny);
}

}  // namespace

TEST_CASE("child: experiment 17 with wrong places", "[.]") {
  peer_copy(std::getenv("FANOUT_EXPERIMENT_COPY"));
}
TEST_CASE("child: experiment 17 with a wrong kind", "[.]") {
  Malloced<int> from(1), to(1);
  answer(17, "cudaMemcpyHostToDevice between device pointers",
         cudaMemcpy(to.pointer, from.pointer, sizeof(int), cudaMemcpyHostToDevice), kAny);
}
TEST_CASE("experiment 17: copies that name the wrong place") {
  answer_in_child(17, "a kind that does not fit", "child: experiment 17 with a wrong kind");
  NEEDS_DEVICES(2);
  for (const char* what : {"swapped device numbers", "a host pointer", "equal devices"})
    answer_in_child(17, std::string("cudaMemcpyPeer with ") + what, "child: experiment 17 with wrong places",
                    {{"FANOUT_EXPERIMENT_COPY", what}});
}

TEST_CASE("experiment 19: registering what is pinned, freeing what is used") {
  (void)cudaGetLastError();
  std::vector<char> pageable(1 << 20);
  REQUIRE_OK(cudaHostRegister(pageable.data(), pageable.size(), cudaHostRegisterDefault));
  answer(19, "cudaHostUnregister of an inside address", cudaHostUnregister(pageable.data() + 4096), 713);
  answer(19, "cudaHostRegister of an overlapping range",
         cudaHostRegister(pageable.data() + 4096, 4096, cudaHostRegisterDefault), 712);
  REQUIRE_OK(cudaHostUnregister(pageable.data()));
  answer(19, "cudaHostUnregister a second time", cudaHostUnregister(pageable.data()), 713);
  char* pinned = nullptr;
  REQUIRE_OK(cudaMallocHost(&pinned, 4096));
  answer(19, "cudaHostRegister of pinned memory", cudaHostRegister(pinned, 4096, cudaHostRegisterDefault), 712);
  TestStream queue;
  Malloced<char> block(4096);
  REQUIRE_OK(cudaMemcpyAsync(block.pointer, pinned, 4096, cudaMemcpyHostToDevice, queue.stream));
  answer(19, "cudaFreeHost with a copy pending", cudaFreeHost(pinned), 0);
  REQUIRE_OK(cudaStreamSynchronize(queue.stream));
  (void)cudaGetLastError();
}
