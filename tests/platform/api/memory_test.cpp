// SPDX-License-Identifier: Apache-2.0
// cudaMalloc, pinned memory, and what is known of a pointer.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>

#include "tests/platform/api/cuda_check.h"

using namespace fanout::test;

TEST_CASE("cudaMalloc gives memory of the current device, 256-byte aligned") {
  for (int device = 0; device < device_count(); ++device) {
    OnDevice current(device);
    for (std::size_t bytes : {1, 255, 256, 257, 4097, 1 << 20, (1 << 20) + 1}) {
      Malloced<char> block(bytes);
      REQUIRE(reinterpret_cast<std::uintptr_t>(block.pointer) % 256 == 0);
      cudaPointerAttributes attributes;
      REQUIRE_OK(cudaPointerGetAttributes(&attributes, block.pointer + bytes - 1));
      REQUIRE(attributes.type == cudaMemoryTypeDevice);
      REQUIRE(attributes.device == device);
      REQUIRE(attributes.devicePointer == block.pointer + bytes - 1);
    }
  }
}

TEST_CASE("cudaMalloc of 0 bytes succeeds with NULL, and NULL may be freed") {
  void* pointer = &pointer;
  REQUIRE_OK(cudaMalloc(&pointer, 0));
  REQUIRE(pointer == nullptr);
  REQUIRE_OK(cudaFree(nullptr));
  REQUIRE(cudaMalloc(static_cast<void**>(nullptr), 16) == cudaErrorInvalidValue);
  REQUIRE(cudaGetLastError() == cudaErrorInvalidValue);
}

TEST_CASE("too much memory is 2, keeps the pointer, and a smaller request still works") {
  int mark = 0;
  void* pointer = &mark;
  REQUIRE(cudaMalloc(&pointer, std::size_t{1} << 50) == cudaErrorMemoryAllocation);
  REQUIRE(pointer == &mark);
  REQUIRE(cudaGetLastError() == cudaErrorMemoryAllocation);
  REQUIRE(cudaGetLastError() == cudaSuccess);
  Malloced<char> block(1 << 16);
}

TEST_CASE("cudaFree takes memory of any device, once, at its start") {
  char* pointer = nullptr;
  {
    OnDevice last(device_count() - 1);
    REQUIRE_OK(cudaMalloc(&pointer, 1000));
  }
  REQUIRE(cudaFree(pointer + 256) == cudaErrorInvalidValue);
  REQUIRE_OK(cudaFree(pointer));
  REQUIRE(cudaFree(pointer) == cudaErrorInvalidValue);
  std::vector<char> host(16);
  REQUIRE(cudaFree(host.data()) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST_CASE("live blocks of changing sizes never overlap") {
  std::mt19937 random(7);
  struct Held {
    unsigned* pointer;
    std::size_t elements;
    unsigned value;
  };
  std::vector<Held> held;
  for (unsigned round = 0; round < 2000; ++round) {
    if (held.size() > 60 || (!held.empty() && random() % 3 == 0)) {
      const std::size_t pick = random() % held.size();
      std::vector<unsigned> back(held[pick].elements);
      REQUIRE_OK(cudaMemcpy(back.data(), held[pick].pointer, back.size() * 4, cudaMemcpyDeviceToHost));
      REQUIRE(back == std::vector<unsigned>(back.size(), held[pick].value));
      REQUIRE_OK(cudaFree(held[pick].pointer));
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(pick));
    } else {
      const std::size_t elements = 1 + random() % (1u << (4 + random() % 13));
      unsigned* pointer = nullptr;
      REQUIRE_OK(cudaMalloc(&pointer, elements * 4));
      const std::vector<unsigned> values(elements, round);
      REQUIRE_OK(cudaMemcpy(pointer, values.data(), elements * 4, cudaMemcpyHostToDevice));
      held.push_back({pointer, elements, round});
    }
  }
  for (const Held& block : held) REQUIRE_OK(cudaFree(block.pointer));
}

TEST_CASE("pinned memory is host memory that belongs to the device current at the call") {
  OnDevice last(device_count() - 1);
  int* pinned = nullptr;
  REQUIRE_OK(cudaMallocHost(&pinned, 1000 * sizeof(int)));
  pinned[999] = 42;
  cudaPointerAttributes attributes;
  REQUIRE_OK(cudaPointerGetAttributes(&attributes, pinned + 999));
  REQUIRE(attributes.type == cudaMemoryTypeHost);
  REQUIRE(attributes.device == device_count() - 1);
  REQUIRE(attributes.hostPointer == pinned + 999);
  REQUIRE_OK(cudaFreeHost(pinned));
  REQUIRE(cudaFreeHost(pinned) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST_CASE("cudaHostAlloc of 0 bytes gives NULL, an unknown flag is 1") {
  void* pointer = &pointer;
  REQUIRE_OK(cudaHostAlloc(&pointer, 0, cudaHostAllocPortable));
  REQUIRE(pointer == nullptr);
  REQUIRE(cudaHostAlloc(&pointer, 16, 0x1000) == cudaErrorInvalidValue);
  REQUIRE_OK(cudaFreeHost(nullptr));
  int pageable = 0;
  REQUIRE(cudaFreeHost(&pageable) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST_CASE("a plain host pointer is no error: it is unregistered") {
  const auto plain = std::make_unique<int>(1);
  cudaPointerAttributes attributes;
  REQUIRE_OK(cudaPointerGetAttributes(&attributes, plain.get()));
  REQUIRE(attributes.type == cudaMemoryTypeUnregistered);
  REQUIRE(attributes.devicePointer == nullptr);
}

TEST_CASE("registering pins a host range until it is unregistered") {
  constexpr std::size_t kBytes = 1 << 16;
  const std::unique_ptr<void, decltype(&std::free)> range(std::aligned_alloc(4096, kBytes), &std::free);
  REQUIRE_OK(cudaHostRegister(range.get(), kBytes, cudaHostRegisterDefault));
  cudaPointerAttributes attributes;
  REQUIRE_OK(cudaPointerGetAttributes(&attributes, static_cast<char*>(range.get()) + 5000));
  REQUIRE(attributes.type == cudaMemoryTypeHost);
  REQUIRE(cudaHostRegister(range.get(), kBytes, cudaHostRegisterDefault) == cudaErrorHostMemoryAlreadyRegistered);
  REQUIRE(cudaFreeHost(range.get()) == cudaErrorInvalidValue);
  REQUIRE_OK(cudaHostUnregister(range.get()));
  REQUIRE(cudaHostUnregister(range.get()) == cudaErrorHostMemoryNotRegistered);
  REQUIRE_OK(cudaPointerGetAttributes(&attributes, range.get()));
  REQUIRE(attributes.type == cudaMemoryTypeUnregistered);
  REQUIRE(cudaHostRegister(range.get(), 0, cudaHostRegisterDefault) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
}
