// SPDX-License-Identifier: Apache-2.0
// The threads of a grid: threadIdx and its like, the loop over them, and the block's barrier.
#pragma once

#include <atomic>
#include <cstddef>

#include "sim/host_api.h"
#include "sim/kernel_checks.h"
#include "sim/lanes.h"

// Internal linkage and no address taken: then no store through a pointer can change them, which is what lets the
// compiler keep them in registers and vectorise the loop over the threads.
#define FANOUT_SIM_THREAD_STATE [[maybe_unused, gnu::tls_model("initial-exec")]] static constinit thread_local
FANOUT_SIM_THREAD_STATE uint3 threadIdx{};
FANOUT_SIM_THREAD_STATE uint3 blockIdx{};
FANOUT_SIM_THREAD_STATE dim3 blockDim{};
FANOUT_SIM_THREAD_STATE dim3 gridDim{};
[[maybe_unused]] static constexpr int warpSize = sim::kWarpSize;

namespace sim {

FANOUT_SIM_THREAD_STATE const Grid* current_grid = nullptr;
FANOUT_SIM_THREAD_STATE bool block_has_fibers = false;
#undef FANOUT_SIM_THREAD_STATE

namespace {

/// Number of this thread in its block, and how many the block has.
[[gnu::always_inline]] inline unsigned thread_rank() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
[[gnu::always_inline]] inline unsigned block_threads() {
  return blockDim.x * blockDim.y * blockDim.z;
}

/// Meets the other threads. Others ran on this host thread meanwhile, so threadIdx has to be put back.
[[gnu::always_inline]] inline void meet_block(void* operand, BlockCombine combine, const Place& place) {
  const uint3 self = threadIdx;
  block_meet(*current_grid, thread_rank(), operand, combine, place);
  threadIdx = self;
  block_has_fibers = true;
}

[[gnu::always_inline]] inline void meet_warp(unsigned mask, void* operand, WarpCombine combine, const Place& place) {
  const uint3 self = threadIdx;
  warp_meet(*current_grid, thread_rank(), mask, operand, combine, place);
  threadIdx = self;
  block_has_fibers = true;
}

/// Runs `body`, the kernel with its arguments, once for every thread of the grid, block by block.
template <class Body>
[[gnu::noinline]] void run_grid(const char* kernel, dim3 grid_size, dim3 block_size, std::size_t shared_bytes,
                                Body body) {
  // Sizes and body as copies that nobody else can reach, or the compiler would load them anew for every thread.
  Body fiber_body = body;
  const unsigned grid_x = grid_size.x, grid_y = grid_size.y, grid_z = grid_size.z;
  const unsigned block_x = block_size.x, block_y = block_size.y, block_z = block_size.z;
  Grid grid;
  grid.kernel = kernel;
  grid.size = grid_size;
  grid.block = block_size;
  grid.threads = block_x * block_y * block_z;
  grid.body = &fiber_body;
  grid.run_thread = [](void* any_body, unsigned rank) {
    threadIdx = {rank % blockDim.x, rank / blockDim.x % blockDim.y, rank / (blockDim.x * blockDim.y)};
    (*static_cast<Body*>(any_body))();
  };
  gridDim = dim3(grid_x, grid_y, grid_z);
  blockDim = dim3(block_x, block_y, block_z);
  current_grid = &grid;
#if defined(FANOUT_SIM_KERNEL_CHECKS)
  checks::begin(grid, &threadIdx,
                {{{&threadIdx, sizeof threadIdx},
                  {&blockIdx, sizeof blockIdx},
                  {&blockDim, sizeof blockDim},
                  {&gridDim, sizeof gridDim},
                  {&current_grid, sizeof current_grid},
                  {&block_has_fibers, sizeof block_has_fibers}}});
#endif

  const auto run_block = [&] {
    block_has_fibers = false;
    for (unsigned z = 0; z < block_z; ++z) {
      for (unsigned y = 0; y < block_y; ++y) {
        threadIdx = {0, y, z};
#if !defined(__clang__)
#pragma GCC ivdep  // threads of a block do not depend on each other between barriers
#endif
        for (unsigned x = 0; x < block_x; ++x) {
          threadIdx.x = x;
          body();
          if (block_has_fibers) [[unlikely]] {
            finish_block();
            return;
          }
        }
      }
    }
  };
  for (unsigned z = 0; z < grid_z; ++z) {
    for (unsigned y = 0; y < grid_y; ++y) {
      for (unsigned x = 0; x < grid_x; ++x) {
        blockIdx = {x, y, z};
        grid.block_index = {x, y, z};
        if (shared_bytes != 0) prepare_dynamic_shared(shared_bytes);
        run_block();
      }
    }
  }
#if defined(FANOUT_SIM_KERNEL_CHECKS)
  checks::end();
#endif
  current_grid = nullptr;
}

}  // namespace
}  // namespace sim

[[gnu::always_inline]] static inline void __syncthreads(sim::SourceLine at = sim::SourceLine::here()) {
  if (sim::block_threads() == 1) return;
  sim::meet_block(nullptr, nullptr, {"__syncthreads", at});
}

[[gnu::always_inline]] static inline void __threadfence() {
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer knows no fences.
  static std::atomic<int> order{0};
  order.fetch_add(0);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

// The threads of a block share a host thread.
[[gnu::always_inline]] static inline void __threadfence_block() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
}
