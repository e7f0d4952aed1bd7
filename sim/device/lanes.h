// SPDX-License-Identifier: Apache-2.0
// The state of the threads of one block while they run as fibers.
#pragma once

#include <cstdint>

#include "sim/lanes.h"

namespace sim {

struct Lanes {
  struct Warp {
    std::uint32_t waiting = 0;   // lanes in a warp operation
    std::uint32_t interval = 0;  // warp operations that have ended in this block
    std::uint32_t mask[kWarpSize] = {};
    void* operand[kWarpSize] = {};
    WarpCombine combine[kWarpSize] = {};
  };
  static constexpr int kMaxWarps = kMaxThreadsPerBlock / kWarpSize;

  const Grid* grid = nullptr;  // null while the block's threads run as a plain loop
  unsigned warps = 0;
  unsigned current = 0;  // the thread that runs
  unsigned alive_threads = 0;
  unsigned arrived_threads = 0;  // at the block's barrier
  unsigned first_arrived = 0;
  std::uint32_t interval = 0;           // barriers that the block has passed
  BlockCombine combine = nullptr;       // of the block operation that threads wait in
  std::uint32_t alive[kMaxWarps] = {};  // lanes that have not finished
  std::uint32_t ready[kMaxWarps] = {};  // lanes that can run, the one that runs among them
  Warp warp[kMaxWarps];
  void* operand[kMaxThreadsPerBlock] = {};
  const Place* place[kMaxThreadsPerBlock] = {};  // where a thread waits, while it does
};

/// How many barriers of the block, and operations of the thread's warp, lie behind the thread.
struct Intervals {
  std::uint32_t block, warp;
};
Intervals intervals_of(unsigned thread);

}  // namespace sim
