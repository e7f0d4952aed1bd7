// SPDX-License-Identifier: Apache-2.0
// The threads of one block as fibers of one host thread. A thread that must wait switches straight to the next one that
// can run, without a scheduler between; the last to come lets all go on. The thread that waited first stays on the
// launcher's stack.
#include "sim/lanes.h"

#include <pthread.h>
#include <sys/mman.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>

#include "sim/device/divergence.h"
#include "sim/device/fiber_annotations.h"
#include "sim/device/lanes.h"
#include "sim/device/stack_switch.h"

namespace sim {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kStackBytes = 128 * 1024;
constexpr std::size_t kSlotBytes = kPageBytes + kStackBytes;  // the guard page is below
constexpr std::size_t kAreaBytes = kSlotBytes * kMaxThreadsPerBlock;

bool same_place(const Place& a, const Place& b) {
  return a.at.line == b.at.line && a.operation == b.operation;
}

constexpr std::uint32_t bit(unsigned thread) {
  return 1u << (thread % kWarpSize);
}

// Fibers and their stacks, made when they are first needed, for one host thread.
class Fibers {
 public:
  Fibers() {
    void* area = mmap(nullptr, kAreaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area == MAP_FAILED) stop("no address space for the stacks of a block");
    area_ = static_cast<char*>(area);
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
      void* bottom = nullptr;
      pthread_attr_getstack(&attributes, &bottom, &home_note_.bytes);
      home_note_.bottom = bottom;
      pthread_attr_destroy(&attributes);
    }
    note_running_stack(home_note_);
  }
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;
  ~Fibers() {
    for (StackNote& note : notes_) {
      if (note.bytes != 0) note_dead_stack(note);
    }
    munmap(area_, kAreaBytes);
  }

  Lanes lanes;

  void begin(const Grid& grid, unsigned thread);
  void finish();
  void switch_away();
  [[gnu::noinline]] void release_block();
  [[gnu::noinline]] void release_warp(unsigned warp, std::uint32_t group);
  [[noreturn]] void run_forever();

 private:
  [[noreturn]] static void stop(const char* what) {
    std::fprintf(stderr, "fanout: %s\n", what);
    std::abort();
  }

  void make_ready(unsigned thread);
  void exit_current();
  void switch_home();
  unsigned next_ready(unsigned thread) const;

  // Thread `home_` runs on the launcher's stack.
  StackNote& note(unsigned thread) { return thread == home_ ? home_note_ : notes_[thread]; }

  char* area_ = nullptr;
  unsigned home_ = 0;
  StackNote home_note_;
  StackNote notes_[kMaxThreadsPerBlock];
  void* pointers_[kMaxThreadsPerBlock] = {};  // null: no fiber of this thread sleeps between blocks
};

// The bare pointer is what every barrier reads; the owner is touched once per host thread.
constinit thread_local Fibers* fibers = nullptr;
thread_local std::unique_ptr<Fibers> fibers_owner;

[[gnu::noinline, gnu::cold]] Fibers& make_fibers() {
  fibers_owner = std::make_unique<Fibers>();
  fibers = fibers_owner.get();
  return *fibers;
}

// The fibers of the block that runs now; `thread` becomes the first if there is none yet.
inline Fibers& fibers_of(const Grid& grid, unsigned thread) {
  Fibers& mine = fibers != nullptr ? *fibers : make_fibers();
  if (mine.lanes.grid == nullptr) mine.begin(grid, thread);
  return mine;
}

void fiber_entry() {
  fibers->run_forever();
}

void Fibers::make_ready(unsigned thread) {
  if (pointers_[thread] != nullptr) return;
  char* bottom = area_ + thread * kSlotBytes + kPageBytes;
  StackNote& mine = notes_[thread];
  if (mine.bytes == 0) {
    if (mprotect(bottom, kStackBytes, PROT_READ | PROT_WRITE) != 0) stop("no memory for the stacks of a block");
    mine.bottom = bottom;
    mine.bytes = kStackBytes;
    note_new_stack(mine);
  }
  mine.fake_stack = nullptr;
  // Stacks that all begin at the same place of a page would share the cache's sets.
  const std::size_t colour = std::size_t{192} * thread % kPageBytes;
  pointers_[thread] = make_stack(bottom + kStackBytes - colour, fiber_entry);
}

void Fibers::begin(const Grid& grid, unsigned thread) {
  lanes.grid = &grid;
  lanes.warps = (grid.threads + kWarpSize - 1) / kWarpSize;
  lanes.alive_threads = grid.threads - thread;
  lanes.arrived_threads = 0;
  lanes.interval = 0;
  lanes.current = thread;
  for (unsigned warp = 0; warp < lanes.warps; ++warp) lanes.alive[warp] = 0;
  for (unsigned other = thread; other < grid.threads; ++other) lanes.alive[other / kWarpSize] |= bit(other);
  for (unsigned warp = 0; warp < lanes.warps; ++warp) {
    lanes.ready[warp] = lanes.alive[warp];
    lanes.warp[warp].waiting = 0;
    lanes.warp[warp].interval = 0;
  }
  for (unsigned other = 0; other < grid.threads; ++other) lanes.operand[other] = nullptr;
  home_ = thread;
  for (unsigned other = thread + 1; other < grid.threads; ++other) make_ready(other);
}

inline unsigned Fibers::next_ready(unsigned thread) const {
  const unsigned warp = thread / kWarpSize;
  const std::uint32_t later = lanes.ready[warp] & ~(bit(thread) | (bit(thread) - 1));
  if (later != 0) return warp * kWarpSize + static_cast<unsigned>(std::countr_zero(later));
  for (unsigned step = 1; step <= lanes.warps; ++step) {
    const unsigned other = warp + step < lanes.warps ? warp + step : warp + step - lanes.warps;
    if (lanes.ready[other] != 0) {
      return other * kWarpSize + static_cast<unsigned>(std::countr_zero(lanes.ready[other]));
    }
  }
  report_divergence(lanes, "no thread of the block can go on");
}

// The current thread waits or has finished, and the next one that can run goes on.
inline void Fibers::switch_away() {
  const unsigned from = lanes.current;
  const unsigned to = next_ready(from);
  lanes.current = to;
  note_before_switch(note(from), note(to));
  fanout_sim_switch_stack(&pointers_[from], pointers_[to]);
  note_after_switch(note(from));
}

void Fibers::switch_home() {
  const unsigned from = lanes.current;
  note_before_switch(note(from), home_note_);
  fanout_sim_switch_stack(&pointers_[from], pointers_[home_]);
  note_after_switch(note(from));
}

void Fibers::release_block() {
  lanes.arrived_threads = 0;
  ++lanes.interval;
  if (lanes.combine != nullptr) lanes.combine(lanes.operand, lanes.grid->threads);
  for (unsigned warp = 0; warp < lanes.warps; ++warp) lanes.ready[warp] = lanes.alive[warp];
}

void Fibers::release_warp(unsigned warp, std::uint32_t group) {
  Lanes::Warp& mine = lanes.warp[warp];
  const int first = std::countr_zero(group);
  for (std::uint32_t rest = group; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    if (mine.mask[lane] != mine.mask[first]) report_divergence(lanes, "lanes of a warp name different masks");
    if (mine.combine[lane] != mine.combine[first]) report_divergence(lanes, "lanes of a warp ask for different things");
  }
  if (mine.combine[first] != nullptr) mine.combine[first](mine.operand, group);
  mine.waiting &= ~group;
  ++mine.interval;
  lanes.ready[warp] |= group;
}

void Fibers::exit_current() {
  const unsigned thread = lanes.current;
  const unsigned warp = thread / kWarpSize;
  Lanes::Warp& mine = lanes.warp[warp];
  lanes.ready[warp] &= ~bit(thread);
  lanes.alive[warp] &= ~bit(thread);
  lanes.operand[thread] = nullptr;
  --lanes.alive_threads;
  // A finished thread no longer counts, so those who waited for it may go on.
  for (std::uint32_t rest = mine.waiting; rest != 0;) {
    const std::uint32_t lowest = rest & -rest;
    const std::uint32_t group = mine.mask[std::countr_zero(rest)] & lanes.alive[warp];
    if ((mine.waiting & group) == group) release_warp(warp, group);
    rest &= mine.waiting & ~lowest;
  }
  if (lanes.alive_threads != 0 && lanes.arrived_threads == lanes.alive_threads) release_block();
}

void Fibers::finish() {
  exit_current();
  if (lanes.alive_threads != 0) switch_away();  // the last thread to finish comes back here
  lanes.grid = nullptr;
  pointers_[home_] = nullptr;  // what was saved there is a place on the launcher's stack
}

// A fiber serves thread after thread: when its part is over it sleeps here until the next block.
void Fibers::run_forever() {
  note_after_switch(note(lanes.current));
  for (;;) {
    lanes.grid->run_thread(lanes.grid->body, lanes.current);
    exit_current();
    if (lanes.alive_threads != 0) {
      switch_away();
    } else {
      switch_home();
    }
  }
}

}  // namespace

// In both, the number of the thread is `rank`, but `current` is known sooner to the processor: `rank` was worked out
// from what the fiber's stack holds, and the next switch would have to wait for it.
void warp_meet(const Grid& grid, unsigned rank, std::uint32_t mask, void* operand, WarpCombine combine,
               const Place& place) {
  Fibers& mine = fibers_of(grid, rank);
  Lanes& lanes = mine.lanes;
  const unsigned thread = lanes.current;
  const unsigned warp = thread / kWarpSize;
  const unsigned lane = thread % kWarpSize;
  Lanes::Warp& group = lanes.warp[warp];
  lanes.place[thread] = &place;
  group.mask[lane] = mask;
  group.operand[lane] = operand;
  group.combine[lane] = combine;
  lanes.ready[warp] &= ~bit(thread);
  group.waiting |= bit(thread);
  if ((mask & bit(thread)) == 0) report_divergence(lanes, "a lane is not in the mask that it names");
  const std::uint32_t needed = mask & lanes.alive[warp];
  if ((group.waiting & needed) == needed) {
    mine.release_warp(warp, needed);
  } else {
    mine.switch_away();
  }
}

void block_meet(const Grid& grid, unsigned rank, void* operand, BlockCombine combine, const Place& place) {
  Fibers& mine = fibers_of(grid, rank);
  Lanes& lanes = mine.lanes;
  const unsigned thread = lanes.current;
  lanes.place[thread] = &place;
  lanes.operand[thread] = operand;
  lanes.ready[thread / kWarpSize] &= ~bit(thread);
  if (lanes.arrived_threads++ == 0) {
    lanes.first_arrived = thread;
    lanes.combine = combine;
  } else if (combine != lanes.combine || !same_place(place, *lanes.place[lanes.first_arrived])) {
    report_divergence(lanes, "threads of the block meet at different barriers");
  }
  if (lanes.arrived_threads == lanes.alive_threads) {
    mine.release_block();
  } else {
    mine.switch_away();
  }
}

Intervals intervals_of(unsigned thread) {
  if (fibers == nullptr || fibers->lanes.grid == nullptr) return {0, 0};
  return {fibers->lanes.interval, fibers->lanes.warp[thread / kWarpSize].interval};
}

void finish_block() {
  fibers->finish();
}

}  // namespace sim
