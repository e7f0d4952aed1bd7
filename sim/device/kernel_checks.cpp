// SPDX-License-Identifier: Apache-2.0
// Every access of a kernel is judged here. Two accesses of a launch to the same word by different threads, one of them
// writing and not both atomic, are a race unless a barrier lies between them: for threads of one block the block's, for
// threads of one warp also the warp's; between blocks there is none.
#include "sim/kernel_checks.h"

#include <link.h>
#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>

#include "sim/device/kernel_access.h"
#include "sim/device/kernel_checks.h"
#include "sim/device/lanes.h"
#include "sim/runtime/code_places.h"
#include "sim/runtime/machine.h"
#include "sim/runtime/objects.h"
#include "sim/runtime/reach.h"
#include "sim/runtime/report.h"

namespace sim::checks {
namespace {

struct Touch {
  const void* code = nullptr;  // null: nobody
  std::uint64_t number = 0;    // of the access in its launch
  std::uint32_t block = 0, interval = 0, warp_interval = 0;
  std::uint16_t thread = 0;
  bool is_atomic = false;
};

// Two readers, so that one of them is another thread than a later writer.
struct Cell {
  Touch write, first_read, second_read;
};

constexpr std::uintptr_t kLineBytes = 64;
using Words = std::array<Cell, 16>;
using Bytes = std::array<Cell, 64>;  // of accesses to less than a word

// What a block has done to reach others: a fence puts its accesses before its next atomic change of memory, and who has
// made such a change later sees them.
struct Reach {
  std::uint64_t fenced_at = 0;
  bool has_changed_atomically = false;
};

struct Range {
  std::uintptr_t begin = 0, end = 0;
  bool holds(std::uintptr_t address) const { return address - begin < end - begin; }
};

struct Checker {
  const Grid* grid = nullptr;  // null while no kernel runs
  const uint3* thread = nullptr;
  std::array<Own, 6> own{};
  Range thread_local_memory, dynamic_shared;
  Range live, live_to_write;  // memory that may be touched; found before
  std::uint64_t accesses = 0;
  std::unordered_map<std::uint32_t, Reach> reach;  // by block
  std::unordered_map<std::uintptr_t, Words> words;
  std::unordered_map<std::uintptr_t, Bytes> bytes;
};

Checker& checker() {
  thread_local Checker mine;
  return mine;
}

// The bare pointer, which a thread without a kernel may read at any time.
constinit thread_local Checker* running = nullptr;

int find_thread_local_memory(dl_phdr_info* info, std::size_t, void* found) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_TLS || info->dlpi_tls_data == nullptr) continue;
    const auto begin = reinterpret_cast<std::uintptr_t>(info->dlpi_tls_data);
    *static_cast<Range*>(found) = {begin, begin + info->dlpi_phdr[i].p_memsz};
  }
  return 1;  // the first is the program itself
}

std::string index_text(const dim3& size, std::uint64_t rank) {
  char text[64];
  std::snprintf(text, sizeof text, "(%u, %u, %u)", static_cast<unsigned>(rank % size.x),
                static_cast<unsigned>(rank / size.x % size.y), static_cast<unsigned>(rank / size.x / size.y));
  return text;
}

std::string who(const Grid& grid, const Touch& touch) {
  return "block " + index_text(grid.size, touch.block) + ", thread " + index_text(grid.block, touch.thread) + " " +
         code_text(touch.code);
}

[[noreturn, gnu::cold]] void stop_for(const Checker& self, const std::string& text) {
  stop("kernel %s, launched at %s on cuda:%d: %s", self.grid->kernel, place_text(this_thread.launched_at).c_str(),
       this_thread.running_device, text.c_str());
}

std::uint32_t block_now(const Checker& self) {
  const uint3 b = self.grid->block_index;
  return b.x + self.grid->size.x * (b.y + self.grid->size.y * b.z);
}

Touch now(Checker& self, const void* code, bool is_atomic) {
  const uint3 t = *self.thread;
  const dim3& block = self.grid->block;
  Touch touch;
  touch.code = code;
  touch.number = ++self.accesses;
  touch.block = block_now(self);
  touch.thread = static_cast<std::uint16_t>(t.x + block.x * (t.y + block.y * t.z));
  const Intervals intervals = intervals_of(touch.thread);
  touch.interval = intervals.block;
  touch.warp_interval = intervals.warp;
  touch.is_atomic = is_atomic;
  return touch;
}

bool has_reached(Checker& self, const Touch& earlier, const Touch& later) {
  return self.reach[earlier.block].fenced_at > earlier.number && self.reach[later.block].has_changed_atomically;
}

bool is_ordered(Checker& self, const Touch& earlier, const Touch& later, bool is_shared) {
  // Another block's shared memory was another memory.
  if (earlier.block != later.block) return is_shared || has_reached(self, earlier, later);
  if (earlier.thread == later.thread || earlier.interval != later.interval) return true;
  return earlier.thread / kWarpSize == later.thread / kWarpSize && earlier.warp_interval != later.warp_interval;
}

[[noreturn, gnu::cold]] void stop_for_race(const Checker& self, const Touch& earlier, bool earlier_writes,
                                           const Touch& later, bool later_writes, std::uintptr_t address,
                                           bool is_shared) {
  const std::string memory = is_shared ? "shared memory" : objects::history(reinterpret_cast<void*>(address));
  stop_for(self, "race: " + who(*self.grid, earlier) + (earlier_writes ? " writes" : " reads") + " and " +
                     who(*self.grid, later) + (later_writes ? " writes" : " reads") + " the same memory (" + memory +
                     "), and no barrier lies between them" +
                     (earlier.block != later.block ? "; none orders the blocks of a launch" : ""));
}

void check_race(Checker& self, Cell& cell, const Touch& touch, bool writes, std::uintptr_t address, bool is_shared) {
  const auto require = [&](const Touch& earlier, bool earlier_writes) {
    if (earlier.code == nullptr || (earlier.is_atomic && touch.is_atomic)) return;
    // A plain read beside atomic changes gets one of the values, as the usual loop around atomicCAS wants it.
    if (earlier_writes ? earlier.is_atomic && !writes : touch.is_atomic) return;
    if (!is_ordered(self, earlier, touch, is_shared))
      stop_for_race(self, earlier, earlier_writes, touch, writes, address, is_shared);
  };
  require(cell.write, true);
  if (writes) {
    require(cell.first_read, false);
    require(cell.second_read, false);
    // What the thread has written plainly stays so for the others, until the next barrier.
    const bool stays_plain = touch.is_atomic && cell.write.code != nullptr && !cell.write.is_atomic &&
                             cell.write.block == touch.block && cell.write.interval == touch.interval;
    cell = {stays_plain ? cell.write : touch, {}, {}};
    return;
  }
  Touch& first = cell.first_read;
  const bool replaces = first.code == nullptr || is_ordered(self, first, touch, is_shared);
  (replaces ? first : cell.second_read) = touch;
}

void check_races(Checker& self, std::uintptr_t address, std::size_t size, bool writes, const Touch& touch,
                 bool is_shared) {
  if (size >= 4 && address % 4 == 0) {
    for (std::size_t done = 0; done < size; done += 4) {
      const std::uintptr_t at = address + done;
      check_race(self, self.words[at / kLineBytes][at % kLineBytes / 4], touch, writes, at, is_shared);
    }
    return;
  }
  for (std::size_t done = 0; done < size; ++done) {
    const std::uintptr_t at = address + done;
    check_race(self, self.bytes[at / kLineBytes][at % kLineBytes], touch, writes, at, is_shared);
  }
}

// A byte for each of the arenas', 1 where something was written.
char* written_marks() {
  static char* const marks = [] {
    void* memory = mmap(nullptr, arena_count * kArenaBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) stop("no address space for the marks of written memory");
    return static_cast<char*>(memory);
  }();
  return marks;
}

char* marks_of(const void* pointer) {
  return written_marks() + (reinterpret_cast<std::uintptr_t>(pointer) - arenas_base);
}

bool is_on_a_device(const void* pointer) {
  return arena_index(pointer) + 1 < arena_count;
}

// In late mode copies and libraries write later than they say so.
bool knows_what_is_written() {
  return !is_late();
}

void require_reachable(Checker& self, std::uintptr_t address, std::size_t size, bool writes, const Touch& touch) {
  Range& known = writes ? self.live_to_write : self.live;
  if (known.holds(address) && known.holds(address + size - 1)) return;
  const auto* const pointer = reinterpret_cast<const void*>(address);
  const Block block = find_block(pointer);
  const char* why = nullptr;
  if (!block || size > block.bytes - static_cast<std::size_t>(static_cast<const char*>(pointer) - block.start)) {
    why = "outside of any allocation";
  } else {
    why = unreachable(device_at(this_thread.running_device), {pointer, writes, size});
  }
  if (why == nullptr) {
    const auto begin = reinterpret_cast<std::uintptr_t>(block.start);
    known = {begin, begin + block.bytes};
    return;
  }
  const std::string history = objects::history(pointer);
  char place[64];
  std::snprintf(place, sizeof place, "%zu bytes at %p, ", size, pointer);
  stop_for(self, who(*self.grid, touch) + (writes ? " writes " : " reads ") + place + why +
                     (history.empty() ? "" : " (" + history + ")"));
}

void require_written(Checker& self, std::uintptr_t address, std::size_t size, const Touch& touch) {
  const auto* const pointer = reinterpret_cast<const void*>(address);
  if (!is_on_a_device(pointer) || !knows_what_is_written()) return;
  if (std::memchr(marks_of(pointer), 0, size) == nullptr) return;
  stop_for(self, who(*self.grid, touch) + " reads what nobody has written (" + objects::history(pointer) + ")");
}

bool is_own(const Checker& self, std::uintptr_t address) {
  for (const Own& own : self.own) {
    if (address - reinterpret_cast<std::uintptr_t>(own.begin) < own.bytes) return true;
  }
  return false;
}

[[gnu::noinline]] void check(Checker& self, const void* pointer, std::size_t size, bool reads, bool writes,
                             bool is_atomic, const void* code) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const bool is_global = arena_index(pointer) < arena_count;
  const bool is_shared = !is_global && (self.thread_local_memory.holds(address) || self.dynamic_shared.holds(address));
  if ((!is_global && !is_shared) || (is_shared && is_own(self, address))) return;
  running = nullptr;  // what this calls may be a kernel's code as well
  const Touch touch = now(self, code, is_atomic);
  if (is_atomic && reads && writes) self.reach[touch.block].has_changed_atomically = true;
  if (is_global) {
    require_reachable(self, address, size, writes, touch);
    if (reads) require_written(self, address, size, touch);
    if (writes && is_on_a_device(pointer)) std::memset(marks_of(pointer), 1, size);
  }
  check_races(self, address, size, writes, touch, is_shared);
  running = &self;
}

}  // namespace

void access(const void* pointer, std::size_t bytes, bool reads, bool writes, bool is_atomic, const void* code) {
  if (running != nullptr && bytes > 0) check(*running, pointer, bytes, reads, writes, is_atomic, code);
}

void fence() {
  if (running != nullptr) running->reach[block_now(*running)].fenced_at = ++running->accesses;
}

void begin(const Grid& grid, const uint3* thread, const std::array<Own, 6>& own) {
  Checker& self = checker();
  if (self.thread_local_memory.end == 0) {
    dl_iterate_phdr(find_thread_local_memory, &self.thread_local_memory);
    const auto shared = reinterpret_cast<std::uintptr_t>(dynamic_shared());
    self.dynamic_shared = {shared, shared + kMostDynamicSharedBytes};
  }
  self.grid = &grid;
  self.thread = thread;
  self.own = own;
  self.live = self.live_to_write = {};
  self.accesses = 0;
  self.reach.clear();
  self.words.clear();
  self.bytes.clear();
  running = &self;
}

void end() {
  running = nullptr;
}

void allocated(const void* pointer, std::size_t bytes) {
  if (is_on_a_device(pointer)) std::memset(marks_of(pointer), 0, bytes);
}

void written(const void* pointer, std::size_t bytes) {
  if (is_on_a_device(pointer)) std::memset(marks_of(pointer), 1, bytes);
}

void written_from(const void* pointer) {
  if (pointer == nullptr || !is_on_a_device(pointer)) return;
  const Block block = find_block(pointer);
  if (!block) return;
  const std::size_t offset = static_cast<std::size_t>(static_cast<const char*>(pointer) - block.start);
  std::memset(marks_of(pointer), 1, block.bytes - offset);
}

void copied(const void* target, const void* source, std::size_t bytes) {
  if (!is_on_a_device(target)) return;
  if (is_on_a_device(source)) {
    std::memmove(marks_of(target), marks_of(source), bytes);
  } else {
    std::memset(marks_of(target), 1, bytes);
  }
}

}  // namespace sim::checks
