// SPDX-License-Identifier: Apache-2.0
// Memory of the small objects that a step makes and ends by the dozen: tensor bodies, storages, nodes.
#pragma once

#include <cstddef>

namespace fanout::detail {

/// As operator new and delete, but what a thread gives back it gets again without a search. A thread keeps at most 64
/// blocks of a size, so one that only ends what others make does not collect them. Larger than 1 KiB, and where
/// addresses are checked, memory comes from operator new itself.
void* allocate_small(std::size_t bytes);
void free_small(void* memory, std::size_t bytes) noexcept;

}  // namespace fanout::detail
