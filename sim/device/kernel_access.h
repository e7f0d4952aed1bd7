// SPDX-License-Identifier: Apache-2.0
// From the calls that the compiler puts into kernels to the checks.
#pragma once

#include <cstddef>

namespace sim::checks {

/// The kernel that this host thread runs touches `bytes` bytes; stops at the first wrong one. Nothing where the thread
/// runs none. `code` is the return address of the call, for the source line.
void access(const void* pointer, std::size_t bytes, bool reads, bool writes, bool is_atomic, const void* code);
/// Its thread passes a fence.
void fence();

}  // namespace sim::checks
