// SPDX-License-Identifier: Apache-2.0
#include "sim/device/divergence.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace sim {
namespace {

const char* base_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

std::string state_of(const Lanes& lanes, unsigned thread) {
  const Lanes::Warp& warp = lanes.warp[thread / kWarpSize];
  const std::uint32_t bit = 1u << (thread % kWarpSize);
  if ((lanes.alive[thread / kWarpSize] & bit) == 0) return "have finished";
  if ((lanes.ready[thread / kWarpSize] & bit) != 0) return "can run";
  const Place& place = *lanes.place[thread];
  std::string text =
      std::string("wait at ") + place.operation + ", " + base_name(place.at.file) + ":" + std::to_string(place.at.line);
  if ((warp.waiting & bit) != 0) {
    char mask[32];
    std::snprintf(mask, sizeof mask, " with mask 0x%08x", warp.mask[thread % kWarpSize]);
    text += mask;
  }
  return text;
}

}  // namespace

[[gnu::cold]] void report_divergence(const Lanes& lanes, const char* what) {
  const Grid& grid = *lanes.grid;
  std::fprintf(stderr, "fanout: barrier divergence in kernel %s, block (%u, %u, %u) of %u x %u x %u threads: %s\n",
               grid.kernel, grid.block_index.x, grid.block_index.y, grid.block_index.z, grid.block.x, grid.block.y,
               grid.block.z, what);
  for (unsigned first = 0; first < grid.threads;) {
    const std::string state = state_of(lanes, first);
    unsigned last = first;
    while (last + 1 < grid.threads && state_of(lanes, last + 1) == state) ++last;
    std::fprintf(stderr, "  threads %u to %u %s\n", first, last, state.c_str());
    first = last + 1;
  }
  std::abort();
}

}  // namespace sim
