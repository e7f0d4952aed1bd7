// SPDX-License-Identifier: Apache-2.0
// The memory of tensors, counted apart from them, with the count of writes to it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/device/device.h"
#include "runtime/tensor/intrusive.h"

namespace fanout {

/// Host memory that feeds a copy is pinned, so that the copy can run beside the host.
enum class HostMemory : bool { pageable, pinned };

/// Memory on one device, or on the host. Device memory is allocated and freed in the order of the device's compute
/// stream.
class Storage final : public RefCounted {
 public:
  /// `bytes` may be 0: then there is no memory. Contents are unset. Device memory is 256-byte aligned, host memory 64.
  static Intrusive<Storage> allocate(Device device, std::size_t bytes, HostMemory host_memory = HostMemory::pageable);
  /// A range of `whole` that counts its own writes and keeps the whole alive.
  static Intrusive<Storage> part(Intrusive<Storage> whole, std::size_t offset_bytes, std::size_t bytes);

  void* pointer() const { return pointer_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  /// True if one handle holds this memory and it is no part of a larger buffer: nobody else would see a write.
  bool is_exclusive() const { return has_one_owner() && !whole_; }
  bool pinned() const { return whole_ ? whole_->pinned() : kind_ == HostMemory::pinned; }

  /// Number of writes so far: what was saved for backward, or sent to replicas, is stale when it changed.
  std::uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void count_write() { version_.fetch_add(1, std::memory_order_relaxed); }
  /// The elements of `former` moved here: its readers must see another version than the one they know.
  void continue_count(const Storage& former) { version_.store(former.version() + 1, std::memory_order_relaxed); }

 private:
  Storage(Device device, void* pointer, std::size_t bytes, HostMemory kind, Intrusive<Storage> whole)
      : pointer_(pointer), bytes_(bytes), device_(device), kind_(kind), whole_(std::move(whole)) {}
  ~Storage() override;

  void* pointer_;
  std::size_t bytes_;
  Device device_;
  HostMemory kind_;
  std::atomic<std::uint32_t> version_{0};
  Intrusive<Storage> whole_;
};

}  // namespace fanout
