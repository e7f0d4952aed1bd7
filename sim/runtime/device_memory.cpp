// SPDX-License-Identifier: Apache-2.0
// cudaMalloc, cudaFree, cudaMallocAsync, cudaFreeAsync, cudaMemGetInfo.
#include <algorithm>
#include <mutex>
#include <vector>

#include "sim/device/kernel_checks.h"
#include "sim/runtime/order.h"
#include "sim/runtime/protection.h"
#include "sim/runtime/streams.h"

using namespace sim;

namespace {

struct Owner {
  Span* span = nullptr;
  BlockPool* blocks = nullptr;  // null where no block of a device can be
};

Owner owner_of(void* pointer) {
  const std::uintptr_t arena = arena_index(pointer);
  if (arena >= static_cast<std::uintptr_t>(machine->device_count())) return {};
  Span* const span = device_at(static_cast<int>(arena)).arena.span_of(pointer);
  return {span, span ? span->pool.load(std::memory_order_acquire) : nullptr};
}

// Frees a block of any device that starts at `pointer`. Host memory, inside pointers and second times are refused.
cudaError_t free_block(const char* call, void* pointer) {
  const auto [span, blocks] = owner_of(pointer);
  if (protection::is_on()) protection::check_before_free(find_block(pointer));
  if (!blocks || !blocks->free(span, pointer)) return objects::refuse_free(call, pointer);
  objects::ended(pointer);
  return cudaSuccess;
}

// Late mode: frees that wait in their streams. The stream itself may use such a block again at once, as CUDA does,
// since what it queues comes behind the free.
struct WaitingFree {
  std::uint64_t number;
  const Stream* stream;
  Span* span;
  BlockPool* blocks;
  void* pointer;
  std::size_t bytes;
};
std::mutex waiting_mutex;
std::vector<WaitingFree>& waiting_frees() {
  static auto* const all = new std::vector<WaitingFree>;
  return *all;
}

// From now on the block is not live; its memory is given out again when the stream gets there.
cudaError_t free_block_late(const char* call, Stream& stream, void* pointer) {
  const auto [span, blocks] = owner_of(pointer);
  const Block block = find_block(pointer);
  const std::size_t bytes = blocks ? blocks->retire(span, pointer) : 0;
  if (bytes == 0) return objects::refuse_free(call, pointer);
  objects::ended(pointer);
  static std::atomic<std::uint64_t> last_number{0};
  const std::uint64_t number = ++last_number;
  {
    std::lock_guard guard(waiting_mutex);
    waiting_frees().push_back({number, &stream, span, blocks, pointer, bytes});
  }
  late::enqueue(stream, [number, pointer, block] {
    std::lock_guard guard(waiting_mutex);
    const auto is_it = [number](const WaitingFree& each) { return each.number == number; };
    const auto found = std::find_if(waiting_frees().begin(), waiting_frees().end(), is_it);
    if (found == waiting_frees().end()) return;  // used again
    if (protection::is_on()) protection::check_before_free(block);
    found->blocks->recycle(found->span, pointer, found->bytes);
    waiting_frees().erase(found);
  });
  return cudaSuccess;
}

void* reuse_waiting(Stream& stream, const BlockPool& blocks, std::size_t bytes) {
  std::lock_guard guard(waiting_mutex);
  for (std::size_t i = waiting_frees().size(); i-- > 0;) {
    const WaitingFree each = waiting_frees()[i];
    if (each.stream != &stream || each.blocks != &blocks) continue;
    if (!each.blocks->revive(each.span, each.pointer, bytes)) continue;
    waiting_frees().erase(waiting_frees().begin() + static_cast<std::ptrdiff_t>(i));
    return each.pointer;
  }
  return nullptr;
}

cudaError_t allocate(void** pointer, std::size_t bytes, Device& device, BlockPool& blocks) {
  void* const block = device.allocate(blocks, bytes);
  if (!block) return cudaErrorMemoryAllocation;
  checks::allocated(block, bytes);
  const bool from_pool = &blocks != &device.mallocs;
  objects::made(from_pool ? objects::Kind::pool_memory : objects::Kind::device_memory, block, device.index, bytes);
  *pointer = block;
  return cudaSuccess;
}

// Memory that is usable from here in the stream on.
cudaError_t allocate_in(Stream& stream, void** pointer, std::size_t bytes, const Pool& pool) {
  if (faults::strikes(faults::Kind::alloc, pool.device)) return cudaErrorMemoryAllocation;
  if (is_late()) {
    if (void* const block = reuse_waiting(stream, pool.blocks, bytes)) {
      if (machine->settings.poison || protection::is_on())
        late::enqueue(stream, [block, bytes, &blocks = pool.blocks] { blocks.spoil(block, bytes); });
      checks::allocated(block, bytes);
      objects::made(objects::Kind::pool_memory, block, pool.device, bytes);
      if (order::is_on()) order::allocated(block, bytes, &stream);
      *pointer = block;
      return cudaSuccess;
    }
  }
  const cudaError_t error = allocate(pointer, bytes, device_at(pool.device), pool.blocks);
  if (error == cudaSuccess && order::is_on()) order::allocated(*pointer, bytes, &stream);
  return error;
}

// A free in a stream counts as a write: whoever uses the memory must come before it.
void note_free(const Stream& stream, void* pointer) {
  const Block block = find_block(pointer);
  if (!owner_of(pointer).blocks || block.start != pointer) return;
  const Access freed{pointer, true, block.bytes};
  order::operation(stream, "cudaFreeAsync", &freed, 1);
}

}  // namespace

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return device_api([&](Device& device) -> cudaError_t {
    if (!pointer) return cudaErrorInvalidValue;
    if (bytes == 0) {
      *pointer = nullptr;
      return cudaSuccess;
    }
    if (faults::strikes(faults::Kind::alloc, device.index)) return cudaErrorMemoryAllocation;
    const cudaError_t error = allocate(pointer, bytes, device, device.mallocs);
    if (error == cudaSuccess && order::is_on()) order::allocated(*pointer, bytes, nullptr);
    return error;
  });
}

cudaError_t cudaFree(void* pointer) {
  return device_api([&](Device&) {
    if (!pointer) return cudaSuccess;
    if (is_late()) late::run_all();  // a free waits for everything that could use the memory
    if (order::is_on()) order::host_waited_for_all();
    return free_block("cudaFree", pointer);
  });
}

cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t handle) {
  return with_stream(handle, "cudaMallocAsync", [&](Stream& stream) -> cudaError_t {
    // Size 0 is not settled by the contract; the strict answer finds code that relies on the other one.
    if (!pointer || bytes == 0) return cudaErrorInvalidValue;
    Pool* const pool = device_at(stream.device).current_pool.load(std::memory_order_acquire);
    return allocate_in(stream, pointer, bytes, *pool);
  });
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, std::size_t bytes, cudaMemPool_t handle, cudaStream_t stream) {
  return with_stream(stream, "cudaMallocFromPoolAsync", [&](Stream& on) -> cudaError_t {
    if (!pointer || bytes == 0 || machine->pools.state(handle) != HandleState::live) return cudaErrorInvalidValue;
    return allocate_in(on, pointer, bytes, *reinterpret_cast<Pool*>(handle));
  });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t handle) {
  return with_stream(handle, "cudaFreeAsync", [&](Stream& stream) {
    if (order::is_on()) note_free(stream, pointer);
    return is_late() ? free_block_late("cudaFreeAsync", stream, pointer) : free_block("cudaFreeAsync", pointer);
  });
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
