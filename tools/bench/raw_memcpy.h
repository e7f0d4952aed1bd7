// SPDX-License-Identifier: Apache-2.0
// What the machine's memory can do: plain memcpy of the bytes that a bench moves, with as many threads.
#pragma once

#include <cstddef>

#include "tools/bench/measure.h"

namespace fanout::bench {

/// Times `targets` copies of one buffer of `bytes` bytes into buffers of their own, in huge pages where the system has
/// them. Each of `threads` threads copies its part of the buffer to all targets.
Timing measure_memcpy(int threads, std::size_t bytes, int targets, const StopRule& rule);

}  // namespace fanout::bench
