// SPDX-License-Identifier: Apache-2.0
// Pinned host memory, and what cudaPointerGetAttributes knows of any pointer.
#include <map>
#include <mutex>

#include "sim/runtime/order.h"
#include "sim/runtime/protection.h"
#include "sim/runtime/reach.h"

namespace sim {
namespace {

struct Registration {
  std::size_t bytes;
  int device;
};
std::mutex registrations_mutex;
std::atomic<std::size_t> registration_count{0};

// By base address; leaked, so that it outlives every static object.
std::map<std::uintptr_t, Registration>& registrations() {
  static auto* map = new std::map<std::uintptr_t, Registration>;
  return *map;
}

// The registration that holds the address; null if none. The lock must be held.
const Registration* registration_of(std::uintptr_t address) {
  auto after = registrations().upper_bound(address);
  if (after == registrations().begin()) return nullptr;
  --after;
  return address - after->first < after->second.bytes ? &after->second : nullptr;
}

bool overlaps(std::uintptr_t begin, std::size_t bytes) {
  const auto next = registrations().lower_bound(begin);
  return registration_of(begin) || (next != registrations().end() && next->first < begin + bytes);
}

std::uintptr_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

bool is_pinned_arena(const void* pointer) {
  return arena_index(pointer) + 1 == arena_count;
}

cudaError_t allocate(void** pointer, std::size_t bytes, unsigned flags) {
  return device_api([&](Device& device) -> cudaError_t {
    constexpr unsigned kKnown = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
    if (!pointer || (flags & ~kKnown)) return cudaErrorInvalidValue;
    void* block = nullptr;
    if (bytes > 0) {
      if (faults::strikes(faults::Kind::alloc, faults::kHost)) return cudaErrorMemoryAllocation;
      block = machine->pinned->allocate(bytes, static_cast<std::uint8_t>(device.index));
      if (!block) return cudaErrorMemoryAllocation;
      objects::made(objects::Kind::pinned_memory, block, device.index, bytes);
      if (order::is_on()) order::allocated(block, bytes, nullptr);
    }
    *pointer = block;
    return cudaSuccess;
  });
}

// Device memory: its device, and an address only if the current device can reach it.
void describe_device_memory(cudaPointerAttributes& attributes, int owner, const void* pointer) {
  attributes.type = cudaMemoryTypeDevice;
  attributes.device = owner;
  const bool reachable = owner == this_thread.device || !unreachable(this_device(), {pointer, false});
  attributes.devicePointer = reachable ? const_cast<void*>(pointer) : nullptr;
}

void describe_pinned(cudaPointerAttributes& attributes, int device, const void* pointer) {
  attributes.type = cudaMemoryTypeHost;
  attributes.device = device;
  attributes.devicePointer = attributes.hostPointer = const_cast<void*>(pointer);
}

}  // namespace

bool is_registered(const void* pointer) {
  if (registration_count.load(std::memory_order_acquire) == 0) return false;
  std::lock_guard guard(registrations_mutex);
  return registration_of(address_of(pointer)) != nullptr;
}

}  // namespace sim

using namespace sim;

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes, unsigned flags) {
  return allocate(pointer, bytes, flags);
}
cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned flags) {
  return allocate(pointer, bytes, flags);
}

cudaError_t cudaFreeHost(void* pointer) {
  return device_api([&](Device&) -> cudaError_t {
    if (!pointer) return cudaSuccess;
    if (!is_pinned_arena(pointer)) return objects::refuse_free("cudaFreeHost", pointer);
    if (is_late()) late::run_all();
    if (order::is_on()) order::host_waited_for_all();
    if (protection::is_on()) protection::check_before_free(find_block(pointer));
    Span* const span = machine->pinned_arena->span_of(pointer);
    if (!span || !machine->pinned->free(span, pointer)) return objects::refuse_free("cudaFreeHost", pointer);
    objects::ended(pointer);
    return cudaSuccess;
  });
}

cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned flags) {
  return device_api([&](Device& device) -> cudaError_t {
    constexpr unsigned kKnown =
        cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;
    if (!pointer || bytes == 0 || (flags & ~kKnown)) return cudaErrorInvalidValue;
    if (flags & (cudaHostRegisterReadOnly | cudaHostRegisterIoMemory)) return cudaErrorNotSupported;
    if (is_pinned_arena(pointer)) return cudaErrorHostMemoryAlreadyRegistered;
    if (arena_index(pointer) < arena_count) return cudaErrorInvalidValue;
    std::lock_guard guard(registrations_mutex);
    if (overlaps(address_of(pointer), bytes)) return cudaErrorHostMemoryAlreadyRegistered;
    registrations().emplace(address_of(pointer), Registration{bytes, device.index});
    registration_count.fetch_add(1, std::memory_order_release);
    objects::made(objects::Kind::registration, pointer, device.index, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return device_api([&](Device&) -> cudaError_t {
    if (!pointer) return cudaErrorInvalidValue;
    if (is_late()) late::run_all();
    if (order::is_on()) order::host_waited_for_all();
    std::lock_guard guard(registrations_mutex);
    if (registrations().erase(address_of(pointer)) == 0) return cudaErrorHostMemoryNotRegistered;
    registration_count.fetch_sub(1, std::memory_order_release);
    objects::ended(pointer);
    return cudaSuccess;
  });
}

cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* host_pointer, unsigned flags) {
  return device_api([&](Device&) -> cudaError_t {
    if (!device_pointer || flags != 0) return cudaErrorInvalidValue;
    const bool pinned = is_pinned_arena(host_pointer) && find_block(host_pointer);
    if (!pinned && !is_registered(host_pointer)) return cudaErrorInvalidValue;
    *device_pointer = host_pointer;
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return api([&]() -> cudaError_t {
    if (!attributes) return cudaErrorInvalidValue;
    cudaPointerAttributes found{};
    const std::uintptr_t arena = arena_index(pointer);
    found.device = cudaInvalidDeviceId;
    found.hostPointer = const_cast<void*>(pointer);
    if (arena < static_cast<std::uintptr_t>(machine->device_count())) {
      found.hostPointer = nullptr;
      if (find_block(pointer)) describe_device_memory(found, static_cast<int>(arena), pointer);
    } else if (arena < arena_count) {
      if (const Block block = find_block(pointer)) describe_pinned(found, block.tag, pointer);
    } else if (is_registered(pointer)) {
      std::lock_guard guard(registrations_mutex);
      if (const Registration* held = registration_of(address_of(pointer)))
        describe_pinned(found, held->device, pointer);
    }
    *attributes = found;
    return cudaSuccess;
  });
}
