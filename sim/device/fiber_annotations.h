// SPDX-License-Identifier: Apache-2.0
// Tells AddressSanitizer and ThreadSanitizer about switches between stacks; nothing without them.
#pragma once

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace sim {

/// What the sanitizers know about one stack.
struct StackNote {
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  void* fake_stack = nullptr;  // AddressSanitizer's, while the stack sleeps
  void* fiber = nullptr;       // ThreadSanitizer's
};

inline void note_new_stack([[maybe_unused]] StackNote& note) {
#ifdef __SANITIZE_THREAD__
  if (note.fiber == nullptr) note.fiber = __tsan_create_fiber(0);
#endif
}

inline void note_running_stack([[maybe_unused]] StackNote& note) {
#ifdef __SANITIZE_THREAD__
  note.fiber = __tsan_get_current_fiber();
#endif
}

inline void note_before_switch([[maybe_unused]] StackNote& from, [[maybe_unused]] StackNote& to) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&from.fake_stack, to.bottom, to.bytes);
#endif
#ifdef __SANITIZE_THREAD__
  __tsan_switch_to_fiber(to.fiber, 0);
#endif
}

/// To be called first thing on the stack that was switched to.
inline void note_after_switch([[maybe_unused]] StackNote& self) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(self.fake_stack, nullptr, nullptr);
#endif
}

inline void note_dead_stack([[maybe_unused]] StackNote& note) {
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(note.bottom, note.bytes);
#endif
#ifdef __SANITIZE_THREAD__
  if (note.fiber != nullptr) __tsan_destroy_fiber(note.fiber);
#endif
}

/// Only the first `bytes` of the `capacity` at `memory` may be touched.
inline void note_usable([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes,
                        [[maybe_unused]] std::size_t capacity) {
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(memory, bytes);
  __asan_poison_memory_region(static_cast<char*>(memory) + bytes, capacity - bytes);
#endif
}

}  // namespace sim
