// SPDX-License-Identifier: Apache-2.0
// How the threads of a block meet: barriers, warp operations and block operations of the simulated device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sim/call_place.h"
#include "sim/host_api.h"

namespace sim {

inline constexpr int kWarpSize = 32;
inline constexpr int kMaxThreadsPerBlock = 1024;

/// The launch that a host thread works on. A block's threads start as a plain loop; they become fibers when one of them
/// first waits for another.
struct Grid {
  const char* kernel = "";
  dim3 size;  // in blocks
  dim3 block;
  unsigned threads = 0;                                       // in a block
  std::size_t dynamic_shared_bytes = 0;                       // each block
  uint3 block_index{};                                        // of the block that runs now
  void (*run_thread)(void* body, unsigned thread) = nullptr;  // runs the kernel as that thread of the block
  void* body = nullptr;
};

/// Where a thread waits, for the report when nobody can go on.
struct Place {
  const char* operation = "";
  SourceLine at;
};

/// Called by the last thread to come, with what each lane brought; `lanes` says who takes part.
using WarpCombine = void (*)(void* const* operands, std::uint32_t lanes);

/// The same for a block; the operand of a thread that has finished already is null.
using BlockCombine = void (*)(void* const* operands, unsigned threads);

/// Waits until every lane named by `mask` that has not finished has come with the same mask and `combine`, which then
/// runs once (null: just meet). A lane outside its own mask, or groups that overlap, stop the program with a report.
void warp_meet(const Grid& grid, unsigned thread, std::uint32_t mask, void* operand, WarpCombine combine,
               const Place& place);

/// Waits until every thread of the block that has not finished has come to the same place.
void block_meet(const Grid& grid, unsigned thread, void* operand, BlockCombine combine, const Place& place);

/// Ends the part of the thread that turned the plain loop into fibers, and runs the rest of its block.
void finish_block();

inline constexpr std::size_t kMostDynamicSharedBytes = 227 * 1024;  // that a block may ask for

/// The dynamic shared memory of this host thread's block, 128-byte aligned.
void* dynamic_shared();

/// Makes `bytes` of dynamic shared memory ready for a block; NaN under FANOUT_SIM_POISON=1.
void prepare_dynamic_shared(std::size_t bytes);

/// FANOUT_SIM_LANES=full: launch shapes are those of a real GPU, not one thread a block.
bool full_lanes();

/// The name of a kernel for people: what `text` stands for in `function` (a __PRETTY_FUNCTION__) if it is a template
/// argument there, else `text`. Lives as long as the program.
const char* kernel_name(const char* text, const char* function);

}  // namespace sim
