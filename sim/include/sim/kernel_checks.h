// SPDX-License-Identifier: Apache-2.0
// A build with FANOUT_KERNEL_CHECKS: kernels call the platform at each access to memory (clang's -fsanitize=thread puts
// the calls in, and the platform takes the place of its runtime), which finds races between the threads of a grid,
// accesses out of bounds or to another device's memory, and reads of what nobody has written.
#pragma once

#if defined(FANOUT_SIM_KERNEL_CHECKS)
#include <array>
#include <cstddef>

#include "sim/lanes.h"

namespace sim::checks {

/// Variables of the simulator itself that lie where shared memory does.
struct Own {
  const void* begin;
  std::size_t bytes;
};

/// This host thread runs the grid until end(); threadIdx is in `thread`.
void begin(const Grid& grid, const uint3* thread, const std::array<Own, 6>& own);
void end();

}  // namespace sim::checks
#endif
