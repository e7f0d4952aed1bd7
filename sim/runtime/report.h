// SPDX-License-Identifier: Apache-2.0
// What the platform says on stderr: faults that a later call will notice, and misuse that CUDA leaves undefined.
#pragma once

namespace sim {

/// Prints one line.
[[gnu::format(printf, 1, 2)]] void report(const char* format, ...);

/// For what CUDA calls undefined: prints the line and aborts, so that nobody relies on a friendly meaning.
[[noreturn, gnu::cold, gnu::format(printf, 1, 2)]] void stop(const char* format, ...);

}  // namespace sim
