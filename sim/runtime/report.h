// SPDX-License-Identifier: Apache-2.0
// What the platform says on stderr: faults that a later call will notice, and misuse that CUDA leaves undefined.
#pragma once

#include <string>

#include "sim/call_place.h"

namespace sim {

/// "train.cpp:40"; "an unknown place" where no call was made.
std::string place_text(const SourceLine& place);

/// Prints one line.
[[gnu::format(printf, 1, 2)]] void report(const char* format, ...);

/// For what CUDA calls undefined: prints the line, with the place of this thread's call, and aborts, so that nobody
/// relies on a friendly meaning.
[[noreturn, gnu::cold, gnu::format(printf, 1, 2)]] void stop(const char* format, ...);

}  // namespace sim
