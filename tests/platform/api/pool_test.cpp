// SPDX-License-Identifier: Apache-2.0
// Stream-ordered allocation and memory pools.
#include <cstdint>

#include "tests/platform/api/child_process.h"
#include "tests/platform/api/cuda_check.h"

using namespace fanout::test;

namespace {

struct TestPool {
  explicit TestPool(int device) {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, device};
    REQUIRE_OK(cudaMemPoolCreate(&pool, &properties));
  }
  ~TestPool() { (void)cudaMemPoolDestroy(pool); }
  TestPool(const TestPool&) = delete;
  TestPool& operator=(const TestPool&) = delete;

  std::uint64_t get(cudaMemPoolAttr attribute) const {
    std::uint64_t value = 0;
    REQUIRE_OK(cudaMemPoolGetAttribute(pool, attribute, &value));
    return value;
  }
  void set(cudaMemPoolAttr attribute, std::uint64_t value) {
    REQUIRE_OK(cudaMemPoolSetAttribute(pool, attribute, &value));
  }
  cudaMemPool_t pool = nullptr;
};

int owner_of(const void* pointer) {
  cudaPointerAttributes attributes;
  REQUIRE_OK(cudaPointerGetAttributes(&attributes, pointer));
  REQUIRE(attributes.type == cudaMemoryTypeDevice);
  return attributes.device;
}

}  // namespace

TEST_CASE("cudaMallocAsync follows the stream's device, not the current one") {
  NEEDS_DEVICES(2);
  cudaStream_t stream = nullptr;
  {
    OnDevice one(1);
    REQUIRE_OK(cudaStreamCreate(&stream));
  }
  void* pointer = nullptr;
  REQUIRE_OK(cudaMallocAsync(&pointer, 100, stream));
  REQUIRE(owner_of(pointer) == 1);
  REQUIRE_OK(cudaFreeAsync(pointer, stream));
  REQUIRE_OK(cudaMallocAsync(&pointer, 100, static_cast<cudaStream_t>(nullptr)));
  REQUIRE(owner_of(pointer) == 0);
  REQUIRE_OK(cudaFreeAsync(pointer, static_cast<cudaStream_t>(nullptr)));
  REQUIRE_OK(cudaStreamDestroy(stream));
}

TEST_CASE("cudaFreeAsync takes cudaMalloc memory and cudaFree takes pool memory") {
  TestStream queue;
  void* pointer = nullptr;
  REQUIRE_OK(cudaMalloc(&pointer, 100));
  REQUIRE_OK(cudaFreeAsync(pointer, queue.stream));
  REQUIRE_OK(cudaMallocAsync(&pointer, 100, queue.stream));
  REQUIRE_OK(cudaStreamSynchronize(queue.stream));
  REQUIRE_OK(cudaFree(pointer));
}

TEST_CASE("child: a freed block is used again", "[.]") {
  TestStream queue;
  TestPool pool(0);
  void *first = nullptr, *second = nullptr;
  REQUIRE_OK(cudaMallocFromPoolAsync(&first, 5000, pool.pool, queue.stream));
  REQUIRE_OK(cudaFreeAsync(first, queue.stream));
  REQUIRE_OK(cudaMallocFromPoolAsync(&second, 5000, pool.pool, queue.stream));
  REQUIRE(first == second);
  REQUIRE_OK(cudaFreeAsync(second, queue.stream));
}
TEST_CASE("a freed block is used again by the same stream") {
  const ChildResult child = run_in_child("child: a freed block is used again", {{"FANOUT_SIM_PROTECT", nullptr}});
  INFO(child.output);
  REQUIRE(child.exit_status == 0);
}

TEST_CASE("too much pool memory is 2 and not sticky, a null result is 1") {
  TestStream queue;
  void* pointer = nullptr;
  REQUIRE(cudaMallocAsync(&pointer, std::size_t{1} << 50, queue.stream) == cudaErrorMemoryAllocation);
  REQUIRE(cudaMallocAsync(static_cast<void**>(nullptr), 16, queue.stream) == cudaErrorInvalidValue);
  REQUIRE_OK(cudaMallocAsync(&pointer, 16, queue.stream));
  REQUIRE_OK(cudaFreeAsync(pointer, queue.stream));
  (void)cudaGetLastError();
}

TEST_CASE("a pool counts what is used and remembers the most") {
  TestStream queue;
  TestPool pool(0);
  pool.set(cudaMemPoolAttrReleaseThreshold, UINT64_MAX);
  REQUIRE(pool.get(cudaMemPoolAttrUsedMemCurrent) == 0);
  void *small = nullptr, *large = nullptr;
  REQUIRE_OK(cudaMallocFromPoolAsync(&small, 1 << 10, pool.pool, queue.stream));
  REQUIRE_OK(cudaMallocFromPoolAsync(&large, 4 << 20, pool.pool, queue.stream));
  REQUIRE(pool.get(cudaMemPoolAttrUsedMemCurrent) >= (1 << 10) + (4 << 20));
  REQUIRE_OK(cudaFreeAsync(large, queue.stream));
  REQUIRE_OK(cudaStreamSynchronize(queue.stream));
  REQUIRE(pool.get(cudaMemPoolAttrUsedMemCurrent) < 4 << 20);
  REQUIRE(pool.get(cudaMemPoolAttrUsedMemHigh) >= (1 << 10) + (4 << 20));
  pool.set(cudaMemPoolAttrUsedMemHigh, 0);
  REQUIRE(pool.get(cudaMemPoolAttrUsedMemHigh) < 4 << 20);
  std::uint64_t one = 1;
  REQUIRE(cudaMemPoolSetAttribute(pool.pool, cudaMemPoolAttrUsedMemHigh, &one) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
  REQUIRE_OK(cudaFreeAsync(small, queue.stream));
}

TEST_CASE("unused memory goes back at a synchronisation, unless the release threshold keeps it") {
  TestStream queue;
  TestPool pool(0);
  const bool keep = GENERATE(false, true);
  pool.set(cudaMemPoolAttrReleaseThreshold, keep ? UINT64_MAX : 0);
  void* pointer = nullptr;
  REQUIRE_OK(cudaMallocFromPoolAsync(&pointer, 32 << 20, pool.pool, queue.stream));
  REQUIRE_OK(cudaFreeAsync(pointer, queue.stream));
  REQUIRE_OK(cudaStreamSynchronize(queue.stream));
  REQUIRE((pool.get(cudaMemPoolAttrReservedMemCurrent) >= 32 << 20) == keep);
  REQUIRE_OK(cudaMemPoolTrimTo(pool.pool, 0));
  REQUIRE(pool.get(cudaMemPoolAttrReservedMemCurrent) == 0);
}

TEST_CASE("memory of a destroyed pool stays valid until it is freed") {
  TestStream queue;
  int *pointer = nullptr, value = 5, back = 0;
  {
    TestPool pool(0);
    REQUIRE_OK(cudaMallocFromPoolAsync(&pointer, sizeof(int), pool.pool, queue.stream));
  }
  REQUIRE_OK(cudaMemcpyAsync(pointer, &value, sizeof value, cudaMemcpyHostToDevice, queue.stream));
  REQUIRE_OK(cudaMemcpyAsync(&back, pointer, sizeof back, cudaMemcpyDeviceToHost, queue.stream));
  REQUIRE_OK(cudaStreamSynchronize(queue.stream));
  REQUIRE(back == 5);
  REQUIRE_OK(cudaFreeAsync(pointer, queue.stream));
}

TEST_CASE("a device's pool can be changed to one of its own, and comes back when that is destroyed") {
  cudaMemPool_t usual = nullptr, current = nullptr;
  REQUIRE_OK(cudaDeviceGetDefaultMemPool(&usual, 0));
  {
    TestPool pool(0);
    REQUIRE_OK(cudaDeviceSetMemPool(0, pool.pool));
    REQUIRE_OK(cudaDeviceGetMemPool(&current, 0));
    REQUIRE(current == pool.pool);
  }
  REQUIRE_OK(cudaDeviceGetMemPool(&current, 0));
  REQUIRE(current == usual);
  REQUIRE(cudaMemPoolDestroy(usual) == cudaErrorInvalidValue);
  if (device_count() > 1) REQUIRE(cudaDeviceSetMemPool(1, usual) == cudaErrorInvalidValue);
  REQUIRE(cudaDeviceGetMemPool(&current, device_count()) == cudaErrorInvalidDevice);
  (void)cudaGetLastError();
}

TEST_CASE("pool access is a switch of its own: none at first, read-write after it is set, always for the owner") {
  NEEDS_DEVICES(2);
  TestPool pool(0);
  cudaMemLocation owner{cudaMemLocationTypeDevice, 0}, peer{cudaMemLocationTypeDevice, 1};
  cudaMemAccessFlags flags;
  REQUIRE_OK(cudaMemPoolGetAccess(&flags, pool.pool, &owner));
  REQUIRE(flags == cudaMemAccessFlagsProtReadWrite);
  REQUIRE_OK(cudaMemPoolGetAccess(&flags, pool.pool, &peer));
  REQUIRE(flags == cudaMemAccessFlagsProtNone);
  cudaMemAccessDesc description{peer, cudaMemAccessFlagsProtReadWrite};
  REQUIRE_OK(cudaMemPoolSetAccess(pool.pool, &description, 1));
  REQUIRE_OK(cudaMemPoolGetAccess(&flags, pool.pool, &peer));
  REQUIRE(flags == cudaMemAccessFlagsProtReadWrite);
  description = {owner, cudaMemAccessFlagsProtNone};
  REQUIRE(cudaMemPoolSetAccess(pool.pool, &description, 1) == cudaErrorInvalidDevice);
  (void)cudaGetLastError();
}
