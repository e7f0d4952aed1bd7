// SPDX-License-Identifier: Apache-2.0
// cudaMalloc, cudaFree, cudaMallocAsync, cudaFreeAsync, cudaMemGetInfo.
#include "sim/runtime/streams.h"

using namespace sim;

namespace {

// Frees a block of any device that starts at `pointer`. Host memory, inside pointers and second times are refused.
cudaError_t free_block(void* pointer) {
  const std::uintptr_t arena = arena_index(pointer);
  if (arena >= static_cast<std::uintptr_t>(machine->device_count())) return cudaErrorInvalidValue;
  Span* const span = device_at(static_cast<int>(arena)).arena.span_of(pointer);
  BlockPool* const blocks = span ? span->pool.load(std::memory_order_acquire) : nullptr;
  return blocks && blocks->free(span, pointer) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t allocate(void** pointer, std::size_t bytes, Device& device, BlockPool& blocks) {
  void* const block = device.allocate(blocks, bytes);
  if (!block) return cudaErrorMemoryAllocation;
  *pointer = block;
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return device_api([&](Device& device) -> cudaError_t {
    if (!pointer) return cudaErrorInvalidValue;
    if (bytes == 0) {
      *pointer = nullptr;
      return cudaSuccess;
    }
    return allocate(pointer, bytes, device, device.mallocs);
  });
}

cudaError_t cudaFree(void* pointer) {
  return device_api([&](Device&) { return pointer ? free_block(pointer) : cudaSuccess; });
}

cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t handle) {
  return with_stream(handle, "cudaMallocAsync", [&](Stream& stream) -> cudaError_t {
    // Size 0 is not settled by the contract; the strict answer finds code that relies on the other one.
    if (!pointer || bytes == 0) return cudaErrorInvalidValue;
    Pool* const pool = device_at(stream.device).current_pool.load(std::memory_order_acquire);
    return allocate(pointer, bytes, device_at(pool->device), pool->blocks);
  });
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, std::size_t bytes, cudaMemPool_t handle, cudaStream_t stream) {
  return with_stream(stream, "cudaMallocFromPoolAsync", [&](Stream&) -> cudaError_t {
    if (!pointer || bytes == 0 || machine->pools.state(handle) != HandleState::live) return cudaErrorInvalidValue;
    auto& pool = *reinterpret_cast<Pool*>(handle);
    return allocate(pointer, bytes, device_at(pool.device), pool.blocks);
  });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t handle) {
  return with_stream(handle, "cudaFreeAsync", [&](Stream&) { return free_block(pointer); });
}

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  return device_api([&](Device& device) -> cudaError_t {
    if (!free_bytes || !total_bytes) return cudaErrorInvalidValue;
    const std::size_t lent = device.arena.lent();
    *total_bytes = device.arena.limit();
    *free_bytes = lent < *total_bytes ? *total_bytes - lent : 0;
    return cudaSuccess;
  });
}
