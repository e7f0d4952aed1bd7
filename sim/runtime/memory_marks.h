// SPDX-License-Identifier: Apache-2.0
// Marks on memory: NaN in what nobody has written, and for AddressSanitizer what nobody may touch and what holds
// pointers.
#pragma once

#include <cstddef>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#endif

namespace sim {

/// In every byte it is NaN in every floating-point type.
inline constexpr unsigned char kNanByte = 0xFF;

inline void fill_with_nan(void* memory, std::size_t bytes) {
  std::memset(memory, kNanByte, bytes);
}

/// Whether AddressSanitizer knows by the marks below what nobody may touch.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kMemoryIsMarked = true;
#else
inline constexpr bool kMemoryIsMarked = false;
#endif

inline void mark_usable([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(memory, bytes);
#endif
}

inline void mark_unusable([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  constexpr std::size_t kMostMarked = std::size_t{64} << 20;  // marks cost an eighth of the memory
  if (bytes <= kMostMarked) __asan_poison_memory_region(memory, bytes);
#endif
}

/// Says that objects in this mapped memory hold pointers, so that what they own counts as reachable.
inline void mark_as_root([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __lsan_register_root_region(memory, bytes);
#endif
}

}  // namespace sim
