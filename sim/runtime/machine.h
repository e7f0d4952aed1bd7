// SPDX-License-Identifier: Apache-2.0
// The simulated machine: devices, streams, events, pools, and what every API call does first and last.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "sim/call_place.h"
#include "sim/host_api.h"
#include "sim/runtime/arena.h"
#include "sim/runtime/block_pool.h"
#include "sim/runtime/handle_table.h"
#include "sim/runtime/late.h"
#include "sim/runtime/objects.h"
#include "sim/runtime/settings.h"
#include "sim/runtime/spin_lock.h"

namespace sim {

namespace late {
struct Queue;
}

struct alignas(64) Stream {
  Stream(int device_, unsigned flags_, int priority_, unsigned long long id_)
      : device(device_), flags(flags_), priority(priority_), id(id_) {}
  const int device;
  const unsigned flags;
  const int priority;
  const unsigned long long id;
  SpinLock lock;  // held while an operation of the stream runs
  // Late mode, guarded by the scheduler's lock: what waits, and the tickets of the last operation queued and done.
  late::Queue* late_queue = nullptr;
  std::uint64_t late_end = 0;
  std::uint64_t late_done = 0;
};

struct alignas(64) Event {
  Event(int device_, unsigned flags_) : device(device_), flags(flags_) {}
  const int device;
  const unsigned flags;
  std::atomic<std::int64_t> recorded_ns{kNeverRecorded};  // host clock
  static constexpr std::int64_t kNeverRecorded = -1;
  late::Point recorded_at;          // late mode: the end of the last record,
  std::uint64_t record_number = 0;  // and its number among all records
};

struct alignas(64) Pool {
  Pool(int device_, BlockPool& blocks_, bool is_default_) : device(device_), is_default(is_default_), blocks(blocks_) {}
  const int device;
  const bool is_default;
  BlockPool& blocks;                       // outlives the handle: allocations do
  std::atomic<std::uint32_t> readable{0};  // bit d: device d may read
  std::atomic<std::uint32_t> writable{0};  // bit d: device d may write
  std::atomic<int> reuse_flags[3] = {1, 1, 1};
};

struct Device {
  Device(int index_, int machine_index_, char* base, const Settings& settings);
  const int index;
  const int machine_index;
  Arena arena;
  BlockPool mallocs;  // cudaMalloc
  BlockPool default_blocks;
  Pool* default_pool = nullptr;
  std::atomic<Pool*> current_pool{nullptr};
  Stream* legacy_stream = nullptr;
  std::atomic<std::uint32_t> peers{0};  // bit p: this device may access device p
  std::atomic<cudaError_t> sticky{cudaSuccess};
  std::atomic<bool> sticky_was_returned{false};
  std::atomic<bool> has_context{false};  // somebody used the device, or made it current
  std::mutex pools_mutex;
  std::vector<Pool*> pools;  // with the default pool; a destroyed one stays while it has memory
  std::vector<std::unique_ptr<BlockPool>> created_blocks;  // of the pools but the default one
  std::atomic<bool> has_created_pools{false};

  /// From any pool; unused memory of all of them is given back before the answer is null.
  void* allocate(BlockPool& blocks, std::size_t bytes);
  /// What a synchronisation does to the pools: memory above the release threshold goes back.
  void after_synchronize();
  Pool* pool_of(const BlockPool* blocks);
  /// A new pool, or null when there are too many.
  Pool* make_pool(std::size_t max_bytes);
  /// Takes the memory from a pool that was destroyed, now or, what is still allocated, when it has been freed.
  void retire(Pool& pool);
};

inline constexpr std::size_t kMaxStreams = 1 << 14;
inline constexpr std::size_t kMaxEvents = 1 << 18;
inline constexpr std::size_t kMaxPools = 1 << 12;

struct Machine {
  Settings settings;
  std::vector<std::unique_ptr<Device>> devices;
  std::unique_ptr<Arena> pinned_arena;
  std::unique_ptr<BlockPool> pinned;
  HandleTable<Stream, kMaxStreams> streams;
  HandleTable<Event, kMaxEvents> events;
  HandleTable<Pool, kMaxPools> pools;
  std::atomic<unsigned long long> next_stream_id{1};

  /// A stream with an id that was never used before; null when too many are alive.
  Stream* make_stream(int device, unsigned flags, int priority);
  int device_count() const { return static_cast<int>(devices.size()); }
};

struct ThreadState {
  int device = 0;
  cudaError_t last_error = cudaSuccess;
  bool in_host_function = false;
  int running_device = -1;  // of the operation that runs
  SourceLine launched_at{};
};
inline constinit thread_local ThreadState this_thread;

/// Never destroyed, so that destructors that run after main find it alive.
extern Machine* machine;
extern std::atomic<bool> machine_ready;

// Arenas lie side by side, one per device and then the pinned one; before the first call no pointer is in range.
inline std::uintptr_t arenas_base = std::uintptr_t{1} << 63;
inline std::uintptr_t arena_count = 0;

/// The arena that holds `pointer`: a device, device_count() for pinned memory, or something larger.
inline std::uintptr_t arena_index(const void* pointer) {
  return (reinterpret_cast<std::uintptr_t>(pointer) - arenas_base) >> kArenaShift;
}

/// The live allocation of any device, or of pinned memory, that holds `pointer`; empty if there is none.
Block find_block(const void* pointer);

cudaError_t enter_slow();
/// What every call does first: starts the machine; 800 inside a host function.
inline cudaError_t enter() {
  if (machine_ready.load(std::memory_order_acquire) && !this_thread.in_host_function) [[likely]]
    return cudaSuccess;
  return enter_slow();
}

/// What every call does last. 600 NotReady is an answer, not an error.
inline cudaError_t leave(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) [[unlikely]] {
    this_thread.last_error = error;
    objects::error_left(error);
  }
  return error;
}

template <class F>
cudaError_t api(F body) {
  if (const cudaError_t error = enter()) return leave(error);
  return leave(body());
}

inline bool is_late() {
  return machine->settings.late;
}
inline Device& device_at(int index) {
  return *machine->devices[index];
}
inline Device& this_device() {
  return device_at(this_thread.device);
}

inline void create_context(Device& device) {
  if (!device.has_context.load(std::memory_order_relaxed)) device.has_context.store(true, std::memory_order_relaxed);
}

/// For calls that use the current device: its sticky error comes first.
template <class F>
cudaError_t device_api(F body) {
  return api([&]() -> cudaError_t {
    create_context(this_device());
    if (const cudaError_t sticky = this_device().sticky.load(std::memory_order_relaxed)) return sticky;
    return body(this_device());
  });
}

inline bool is_device(int index) {
  return index >= 0 && index < machine->device_count();
}

/// Whether the hardware could give `device` access to the memory of `peer`; no for a device and itself.
bool peer_capable(int device, int peer);

inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace sim
