// SPDX-License-Identifier: Apache-2.0
// The report when threads of a block wait for others that will never come.
#pragma once

#include "sim/device/lanes.h"

namespace sim {

/// Writes to stderr the kernel, the block, `what` is wrong and where each thread waits, and aborts.
[[noreturn]] void report_divergence(const Lanes& lanes, const char* what);

}  // namespace sim
