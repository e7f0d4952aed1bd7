// SPDX-License-Identifier: Apache-2.0
// cudaMemPool* and the pools of a device.
#include "sim/runtime/machine.h"

using namespace sim;

namespace {

template <class F>
cudaError_t with_pool(cudaMemPool_t handle, F body) {
  return api([&]() -> cudaError_t {
    if (machine->pools.state(handle) != HandleState::live) return cudaErrorInvalidValue;
    return body(*reinterpret_cast<Pool*>(handle));
  });
}

cudaMemPool_t handle_of(Pool* pool) {
  return reinterpret_cast<cudaMemPool_t>(pool);
}

bool is_reuse_flag(cudaMemPoolAttr attribute) {
  return attribute >= cudaMemPoolReuseFollowEventDependencies && attribute <= cudaMemPoolReuseAllowInternalDependencies;
}

bool may_access(int device, int owner) {
  return device == owner || peer_capable(device, owner);
}

cudaError_t check(const cudaMemAccessDesc& description, int owner) {
  const int device = description.location.id;
  if (description.location.type != cudaMemLocationTypeDevice) return cudaErrorInvalidValue;
  if (!is_device(device)) return cudaErrorInvalidDevice;
  switch (description.flags) {
    case cudaMemAccessFlagsProtNone:  // the owner's own access cannot be taken away
      return device == owner ? cudaErrorInvalidDevice : cudaSuccess;
    case cudaMemAccessFlagsProtRead:
    case cudaMemAccessFlagsProtReadWrite:
      return may_access(device, owner) ? cudaSuccess : cudaErrorInvalidDevice;
  }
  return cudaErrorInvalidValue;
}

void set_bit(std::atomic<std::uint32_t>& bits, int index, bool value) {
  if (value)
    bits.fetch_or(1u << index, std::memory_order_release);
  else
    bits.fetch_and(~(1u << index), std::memory_order_release);
}

}  // namespace

cudaError_t cudaMemPoolCreate(cudaMemPool_t* handle, const cudaMemPoolProps* properties) {
  return api([&]() -> cudaError_t {
    if (!handle || !properties || properties->allocType != cudaMemAllocationTypePinned ||
        properties->location.type != cudaMemLocationTypeDevice || !is_device(properties->location.id))
      return cudaErrorInvalidValue;
    if (properties->handleTypes != cudaMemHandleTypeNone) return cudaErrorNotSupported;
    Device& device = device_at(properties->location.id);
    const std::size_t most = properties->maxSize ? round_up(properties->maxSize, kPageBytes) : kArenaBytes;
    Pool* const pool = device.make_pool(most);
    if (!pool) return cudaErrorMemoryAllocation;
    objects::made(objects::Kind::pool, pool, device.index);
    *handle = handle_of(pool);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle) {
  return with_pool(handle, [&](Pool& pool) -> cudaError_t {
    if (pool.is_default || !machine->pools.destroy(&pool)) return cudaErrorInvalidValue;
    objects::ended(&pool);
    device_at(pool.device).retire(pool);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  return with_pool(handle, [&](Pool& pool) -> cudaError_t {
    if (!value) return cudaErrorInvalidValue;
    if (is_reuse_flag(attribute)) {
      pool.reuse_flags[attribute - cudaMemPoolReuseFollowEventDependencies] = *static_cast<int*>(value);
      return cudaSuccess;
    }
    const std::uint64_t number = *static_cast<std::uint64_t*>(value);
    if (attribute == cudaMemPoolAttrReleaseThreshold) {
      pool.blocks.set_release_threshold(number);
      return cudaSuccess;
    }
    const bool reserved = attribute == cudaMemPoolAttrReservedMemHigh, used = attribute == cudaMemPoolAttrUsedMemHigh;
    if ((!reserved && !used) || number != 0) return cudaErrorInvalidValue;
    pool.blocks.reset_high_marks(reserved, used);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  return with_pool(handle, [&](Pool& pool) -> cudaError_t {
    if (!value) return cudaErrorInvalidValue;
    if (is_reuse_flag(attribute)) {
      *static_cast<int*>(value) = pool.reuse_flags[attribute - cudaMemPoolReuseFollowEventDependencies];
      return cudaSuccess;
    }
    const PoolUse use = pool.blocks.use();
    auto& number = *static_cast<std::uint64_t*>(value);
    switch (attribute) {
      case cudaMemPoolAttrReleaseThreshold:
        number = pool.blocks.release_threshold();
        return cudaSuccess;
      case cudaMemPoolAttrReservedMemCurrent:
        number = use.reserved;
        return cudaSuccess;
      case cudaMemPoolAttrReservedMemHigh:
        number = use.reserved_high;
        return cudaSuccess;
      case cudaMemPoolAttrUsedMemCurrent:
        number = use.used;
        return cudaSuccess;
      case cudaMemPoolAttrUsedMemHigh:
        number = use.used_high;
        return cudaSuccess;
      default:
        return cudaErrorInvalidValue;
    }
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t handle, std::size_t bytes_to_keep) {
  return with_pool(handle, [&](Pool& pool) {
    pool.blocks.trim(bytes_to_keep);
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t handle, const cudaMemAccessDesc* descriptions, std::size_t count) {
  return with_pool(handle, [&](Pool& pool) -> cudaError_t {
    if (!descriptions && count > 0) return cudaErrorInvalidValue;
    for (std::size_t i = 0; i < count; ++i)
      if (const cudaError_t error = check(descriptions[i], pool.device)) return error;
    for (std::size_t i = 0; i < count; ++i) {
      const cudaMemAccessDesc& description = descriptions[i];
      if (description.location.id == pool.device) continue;
      set_bit(pool.readable, description.location.id, description.flags != cudaMemAccessFlagsProtNone);
      set_bit(pool.writable, description.location.id, description.flags == cudaMemAccessFlagsProtReadWrite);
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t handle, cudaMemLocation* location) {
  return with_pool(handle, [&](Pool& pool) -> cudaError_t {
    if (!flags || !location || location->type != cudaMemLocationTypeDevice) return cudaErrorInvalidValue;
    if (!is_device(location->id)) return cudaErrorInvalidDevice;
    const bool own = location->id == pool.device;
    const bool read = own || (pool.readable.load(std::memory_order_acquire) >> location->id & 1);
    const bool write = own || (pool.writable.load(std::memory_order_acquire) >> location->id & 1);
    *flags = write ? cudaMemAccessFlagsProtReadWrite : read ? cudaMemAccessFlagsProtRead : cudaMemAccessFlagsProtNone;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return api([&]() -> cudaError_t {
    if (!is_device(device)) return cudaErrorInvalidDevice;
    if (!pool) return cudaErrorInvalidValue;
    *pool = handle_of(device_at(device).default_pool);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return api([&]() -> cudaError_t {
    if (!is_device(device)) return cudaErrorInvalidDevice;
    if (!pool) return cudaErrorInvalidValue;
    *pool = handle_of(device_at(device).current_pool.load(std::memory_order_acquire));
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t handle) {
  return with_pool(handle, [&](Pool& pool) -> cudaError_t {
    if (!is_device(device)) return cudaErrorInvalidDevice;
    if (pool.device != device) return cudaErrorInvalidValue;
    device_at(device).current_pool.store(&pool, std::memory_order_release);
    return cudaSuccess;
  });
}
