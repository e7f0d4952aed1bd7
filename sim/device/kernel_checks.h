// SPDX-License-Identifier: Apache-2.0
// What has been written on the devices, for the reports of reads of what has not. Nothing of it where kernels are not
// checked.
#pragma once

#include <cstddef>
#include <cstring>

namespace sim::checks {

#if defined(FANOUT_SIM_KERNEL_CHECKS)
/// Device memory that was just given out holds nothing.
void allocated(const void* pointer, std::size_t bytes);
/// A fill, or a copy from the host.
void written(const void* pointer, std::size_t bytes);
/// A library has written here, it is not known how far.
void written_from(const void* pointer);
/// What the target holds is what the source holds.
void copied(const void* target, const void* source, std::size_t bytes);
/// memset in the midst of a kernel that is not the kernel's doing.
void fill_unseen(void* memory, int value, std::size_t bytes);
#else
inline void allocated(const void*, std::size_t) {}
inline void written(const void*, std::size_t) {}
inline void written_from(const void*) {}
inline void copied(const void*, const void*, std::size_t) {}
inline void fill_unseen(void* memory, int value, std::size_t bytes) {
  std::memset(memory, value, bytes);
}
#endif

}  // namespace sim::checks
