// SPDX-License-Identifier: Apache-2.0
// Shuffles and votes. Every lane brings its part; the last one to come works all results out.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "sim/lanes.h"
#include "sim/threads.h"

namespace sim {
namespace {

template <class T>
struct Exchange {
  T value;
  T result;
  int source;
};

// A lane that reads from one which does not take part gets NaN bytes: on a GPU the value is undefined.
template <class T>
void exchange(void* const* operands, std::uint32_t lanes) {
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    auto& mine = *static_cast<Exchange<T>*>(operands[std::countr_zero(rest)]);
    if ((lanes >> mine.source & 1) != 0) {
      mine.result = static_cast<const Exchange<T>*>(operands[mine.source])->value;
    } else {
      std::memset(static_cast<void*>(&mine.result), 0xFF, sizeof(T));
    }
  }
}

template <class T>
[[gnu::always_inline]] inline T shuffle(unsigned mask, T value, int source, const Place& place) {
  static_assert(std::is_arithmetic_v<T>, "shuffles take numbers, as on CUDA");
  Exchange<T> mine{value, value, source};
  meet_warp(mask, &mine, &exchange<T>, place);
  return mine.result;
}

struct Vote {
  bool predicate;
  unsigned taking_part;
  unsigned in_favour;
};

[[maybe_unused]] void count_votes(void* const* operands, std::uint32_t lanes) {
  unsigned in_favour = 0;
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    if (static_cast<const Vote*>(operands[lane])->predicate) in_favour |= 1u << lane;
  }
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    auto& mine = *static_cast<Vote*>(operands[std::countr_zero(rest)]);
    mine.taking_part = lanes;
    mine.in_favour = in_favour;
  }
}

[[gnu::always_inline]] inline Vote vote(unsigned mask, bool predicate, const Place& place) {
  Vote mine{predicate, 0, 0};
  meet_warp(mask, &mine, &count_votes, place);
  return mine;
}

[[gnu::always_inline]] inline int lane_rank() {
  return static_cast<int>(thread_rank() % kWarpSize);
}

}  // namespace
}  // namespace sim

#define FANOUT_SIM_WARP_FUNCTION [[gnu::always_inline]] static inline
#define FANOUT_SIM_HERE sim::SourceLine at = sim::SourceLine::here()

FANOUT_SIM_WARP_FUNCTION void __syncwarp(unsigned mask = 0xffffffffu, FANOUT_SIM_HERE) {
  sim::meet_warp(mask, nullptr, nullptr, {"__syncwarp", at});
}

template <class T>
FANOUT_SIM_WARP_FUNCTION T __shfl_sync(unsigned mask, T value, int source, int width = warpSize, FANOUT_SIM_HERE) {
  const int lane = sim::lane_rank();
  return sim::shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)), {"__shfl_sync", at});
}

template <class T>
FANOUT_SIM_WARP_FUNCTION T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                                          FANOUT_SIM_HERE) {
  const int lane = sim::lane_rank();
  const bool inside = delta <= static_cast<unsigned>(lane & (width - 1));
  return sim::shuffle(mask, value, inside ? lane - static_cast<int>(delta) : lane, {"__shfl_up_sync", at});
}

template <class T>
FANOUT_SIM_WARP_FUNCTION T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                                            FANOUT_SIM_HERE) {
  const int lane = sim::lane_rank();
  const bool inside = delta < static_cast<unsigned>(width - (lane & (width - 1)));
  return sim::shuffle(mask, value, inside ? lane + static_cast<int>(delta) : lane, {"__shfl_down_sync", at});
}

// With a width below 32 a lane may read from groups before its own, but gets its own value instead of a later group's.
template <class T>
FANOUT_SIM_WARP_FUNCTION T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize,
                                           FANOUT_SIM_HERE) {
  const int lane = sim::lane_rank();
  const int source = (lane ^ lane_mask) & (warpSize - 1);
  return sim::shuffle(mask, value, source <= (lane | (width - 1)) ? source : lane, {"__shfl_xor_sync", at});
}

FANOUT_SIM_WARP_FUNCTION int __any_sync(unsigned mask, int predicate, FANOUT_SIM_HERE) {
  return sim::vote(mask, predicate != 0, {"__any_sync", at}).in_favour != 0;
}

FANOUT_SIM_WARP_FUNCTION int __all_sync(unsigned mask, int predicate, FANOUT_SIM_HERE) {
  const sim::Vote result = sim::vote(mask, predicate != 0, {"__all_sync", at});
  return result.in_favour == result.taking_part;
}

FANOUT_SIM_WARP_FUNCTION unsigned __ballot_sync(unsigned mask, int predicate, FANOUT_SIM_HERE) {
  return sim::vote(mask, predicate != 0, {"__ballot_sync", at}).in_favour;
}

#undef FANOUT_SIM_HERE
#undef FANOUT_SIM_WARP_FUNCTION
