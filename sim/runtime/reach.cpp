// SPDX-License-Identifier: Apache-2.0
// Reach of kernels: own memory, pinned host memory, peers' cudaMalloc memory with peer access, pools with pool access.
#include "sim/runtime/reach.h"

#include "sim/runtime/report.h"

namespace sim {
namespace {

// A pointer one past the end of an allocation is a legal argument.
Block block_at(const Arena& arena, const void* pointer) {
  const Block block = find_block(arena, pointer);
  return block ? block : find_block(arena, static_cast<const char*>(pointer) - 1);
}

// What is known to be touched of a block. A kernel's buffer of no elements may start where the block ends.
bool ends_inside(const Block& block, const Access& access) {
  const std::size_t offset = static_cast<const char*>(access.pointer) - block.start;
  return offset >= block.bytes || access.bytes <= block.bytes - offset;
}

const char* own_unreachable(const Arena& arena, const Access& access, const char* if_not_live) {
  const Block block = block_at(arena, access.pointer);
  if (!block) return if_not_live;
  return ends_inside(block, access) ? nullptr : "and what is touched reaches beyond the end of its allocation";
}

const char* peer_unreachable(const Device& device, Device& owner, const Access& access) {
  const Block block = block_at(owner.arena, access.pointer);
  if (!block) return "memory of another device that is not allocated";
  BlockPool* const blocks = block.span->pool.load(std::memory_order_relaxed);
  const std::uint32_t bit = 1u << device.index;
  if (blocks == &owner.mallocs) {
    const bool access_on = device.peers.load(std::memory_order_acquire) >> owner.index & 1;
    return access_on ? nullptr : "memory of another device without peer access";
  }
  const Pool* const pool = owner.pool_of(blocks);
  if (!pool) return "memory of another device's pool that was destroyed";
  const auto& allowed = access.write ? pool->writable : pool->readable;
  return allowed.load(std::memory_order_acquire) & bit
             ? nullptr
             : "pool memory of another device without access to the pool (peer access does not count)";
}

}  // namespace

const char* unreachable(const Device& device, const Access& access) {
  const std::uintptr_t arena = arena_index(access.pointer);
  if (arena == static_cast<std::uintptr_t>(device.index))
    return own_unreachable(device.arena, access, "memory of this device that is not allocated");
  if (arena < static_cast<std::uintptr_t>(machine->device_count()))
    return peer_unreachable(device, device_at(static_cast<int>(arena)), access);
  if (arena < arena_count) return own_unreachable(*machine->pinned_arena, access, "pinned memory that was freed");
  return is_registered(access.pointer) ? nullptr : "pageable host memory";
}

void fault(Device& device, const void* stream, const char* operation, int argument, const Access& access) {
  cudaError_t none = cudaSuccess;
  device.sticky.compare_exchange_strong(none, cudaErrorIllegalAddress);
  const std::string history = objects::history(access.pointer);
  report("%s at %s, on cuda:%d, stream %p: pointer %d is %p, %s%s%s%s; the device has error 700 from now on", operation,
         place_text(call_place).c_str(), device.index, stream, argument, access.pointer, unreachable(device, access),
         history.empty() ? "" : " (", history.c_str(), history.empty() ? "" : ")");
}

}  // namespace sim
