// SPDX-License-Identifier: Apache-2.0
// Starts the machine at the first call: settings, address ranges, devices.
#include "sim/runtime/machine.h"

#include <sys/mman.h>

#include "sim/runtime/protection.h"
#include "sim/runtime/report.h"

namespace sim {

Machine* machine = nullptr;
std::atomic<bool> machine_ready{false};

namespace {

std::once_flag started;
cudaError_t start_error = cudaSuccess;

// Address space only: nothing is readable or counted before it is lent.
char* reserve_arenas(std::size_t count) {
  const std::size_t bytes = (count + 1) * kArenaBytes;  // one more, to align
  void* memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  madvise(memory, bytes, MADV_DONTDUMP);
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  return reinterpret_cast<char*>((address + kArenaBytes - 1) & ~(kArenaBytes - 1));
}

cudaError_t start() {
  auto settings = read_settings(kArenaBytes);
  if (!settings) return cudaErrorInitializationError;
  if (settings->visible.empty()) return cudaErrorNoDevice;
  const std::size_t count = settings->visible.size();
  char* const base = reserve_arenas(count + 1);
  if (!base) {
    report("cannot reserve %zu GiB of address space (ulimit -v?)", (count + 2) * (kArenaBytes >> 30));
    return cudaErrorInitializationError;
  }
  auto* made = new Machine;
  made->settings = *settings;
  machine = made;
  for (std::size_t i = 0; i < count; ++i)
    made->devices.push_back(
        std::make_unique<Device>(static_cast<int>(i), settings->visible[i], base + i * kArenaBytes, made->settings));
  made->pinned_arena = std::make_unique<Arena>(base + count * kArenaBytes, kArenaBytes, false);
  made->pinned = std::make_unique<BlockPool>(*made->pinned_arena, Unused::given_back, kArenaBytes, made->settings);
  arenas_base = reinterpret_cast<std::uintptr_t>(base);
  arena_count = count + 1;
  if (made->settings.protect) protection::start();
  if (!made->settings.faults.empty()) faults::replace(made->settings.faults);
  machine_ready.store(true, std::memory_order_release);
  return cudaSuccess;
}

}  // namespace

Block find_block(const void* pointer) {
  const std::uintptr_t arena = arena_index(pointer);
  if (arena >= arena_count) return {};
  const bool is_pinned = arena + 1 == arena_count;
  return find_block(is_pinned ? *machine->pinned_arena : device_at(static_cast<int>(arena)).arena, pointer);
}

cudaError_t enter_slow() {
  if (this_thread.in_host_function) return cudaErrorNotPermitted;
  std::call_once(started, [] { start_error = start(); });
  return start_error;
}

Stream* Machine::make_stream(int device, unsigned flags, int priority) {
  return streams.create(device, flags, priority, next_stream_id.fetch_add(1, std::memory_order_relaxed));
}

Device::Device(int index_, int machine_index_, char* base, const Settings& settings)
    : index(index_),
      machine_index(machine_index_),
      arena(base, settings.memory_of(machine_index_), settings.protect),
      mallocs(arena, Unused::given_back, kArenaBytes, settings),
      default_blocks(arena, Unused::kept, kArenaBytes, settings) {
  default_pool = machine->pools.create(index, default_blocks, true);
  current_pool.store(default_pool, std::memory_order_relaxed);
  pools.push_back(default_pool);
  legacy_stream = machine->make_stream(index, cudaStreamDefault, 0);
}

void* Device::allocate(BlockPool& blocks, std::size_t bytes) {
  if (void* pointer = blocks.allocate(bytes)) [[likely]]
    return pointer;
  if (is_late()) late::run_device(*this);  // frees may be waiting
  {
    std::lock_guard guard(pools_mutex);
    default_blocks.trim(0);
    for (auto& each : created_blocks) each->trim(0);
  }
  return blocks.allocate(bytes);
}

void Device::after_synchronize() {
  if (default_blocks.wants_trim()) default_blocks.trim_to_threshold();
  if (!has_created_pools.load(std::memory_order_relaxed)) return;
  std::lock_guard guard(pools_mutex);
  for (auto& each : created_blocks)
    if (each->wants_trim()) each->trim_to_threshold();
}

Pool* Device::make_pool(std::size_t max_bytes) {
  auto blocks = std::make_unique<BlockPool>(arena, Unused::kept, max_bytes, machine->settings);
  Pool* const pool = machine->pools.create(index, *blocks, false);
  if (!pool) return nullptr;
  std::lock_guard guard(pools_mutex);
  pools.push_back(pool);
  created_blocks.push_back(std::move(blocks));
  has_created_pools.store(true, std::memory_order_relaxed);
  return pool;
}

void Device::retire(Pool& pool) {
  Pool* current = &pool;
  current_pool.compare_exchange_strong(current, default_pool);
  pool.blocks.set_release_threshold(0);
  pool.blocks.trim(0);
  if (pool.blocks.use().reserved > 0) return;
  std::lock_guard guard(pools_mutex);
  std::erase(pools, &pool);
  std::erase_if(created_blocks, [&](const auto& each) { return each.get() == &pool.blocks; });
}

Pool* Device::pool_of(const BlockPool* blocks) {
  std::lock_guard guard(pools_mutex);
  for (Pool* pool : pools)
    if (&pool->blocks == blocks) return pool;
  return nullptr;
}

}  // namespace sim
