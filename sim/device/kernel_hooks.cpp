// SPDX-License-Identifier: Apache-2.0
// What the compiler calls at each access of a kernel, and the C library's calls that it makes of loops. The names are
// ThreadSanitizer's, whose runtime is not linked.
#include <cstddef>
#include <cstdint>

#include "sim/device/kernel_access.h"
#include "sim/device/kernel_checks.h"

#define FANOUT_SIM_CODE __builtin_return_address(0)
// NOLINTBEGIN
extern "C" {
void* __real_memcpy(void*, const void*, std::size_t);
void* __real_memmove(void*, const void*, std::size_t);
void* __real_memset(void*, int, std::size_t);

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_ignore_thread_begin() {}
void __tsan_ignore_thread_end() {}
void __tsan_atomic_thread_fence(int order) {
  static_cast<void>(order);
  sim::checks::fence();
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

#define FANOUT_SIM_ACCESS(n)                                        \
  void __tsan_read##n(void* p) {                                    \
    sim::checks::access(p, n, true, false, false, FANOUT_SIM_CODE); \
  }                                                                 \
  void __tsan_write##n(void* p) {                                   \
    sim::checks::access(p, n, false, true, false, FANOUT_SIM_CODE); \
  }                                                                 \
  void __tsan_read_write##n(void* p) {                              \
    sim::checks::access(p, n, true, true, false, FANOUT_SIM_CODE);  \
  }                                                                 \
  void __tsan_unaligned_read##n(void* p) {                          \
    sim::checks::access(p, n, true, false, false, FANOUT_SIM_CODE); \
  }                                                                 \
  void __tsan_unaligned_write##n(void* p) {                         \
    sim::checks::access(p, n, false, true, false, FANOUT_SIM_CODE); \
  }                                                                 \
  void __tsan_unaligned_read_write##n(void* p) {                    \
    sim::checks::access(p, n, true, true, false, FANOUT_SIM_CODE);  \
  }
FANOUT_SIM_ACCESS(1)
FANOUT_SIM_ACCESS(2)
FANOUT_SIM_ACCESS(4)
FANOUT_SIM_ACCESS(8)
FANOUT_SIM_ACCESS(16)

void __tsan_read_range(void* p, std::size_t bytes) {
  sim::checks::access(p, bytes, true, false, false, FANOUT_SIM_CODE);
}
void __tsan_write_range(void* p, std::size_t bytes) {
  sim::checks::access(p, bytes, false, true, false, FANOUT_SIM_CODE);
}
// Loops and assignments that the compiler makes calls of the C library. Clang 14 leaves these calls as they are, and
// the linker sends them here (-Wl,--wrap), those of host code too, where nothing is checked; later versions rename
// them.
#define FANOUT_SIM_MEMORY_CALLS(prefix)                                        \
  void* prefix##memcpy(void* target, const void* source, std::size_t bytes) {  \
    sim::checks::access(source, bytes, true, false, false, FANOUT_SIM_CODE);   \
    sim::checks::access(target, bytes, false, true, false, FANOUT_SIM_CODE);   \
    return __real_memcpy(target, source, bytes);                               \
  }                                                                            \
  void* prefix##memmove(void* target, const void* source, std::size_t bytes) { \
    sim::checks::access(source, bytes, true, false, false, FANOUT_SIM_CODE);   \
    sim::checks::access(target, bytes, false, true, false, FANOUT_SIM_CODE);   \
    return __real_memmove(target, source, bytes);                              \
  }                                                                            \
  void* prefix##memset(void* target, int value, std::size_t bytes) {           \
    sim::checks::access(target, bytes, false, true, false, FANOUT_SIM_CODE);   \
    return __real_memset(target, value, bytes);                                \
  }
FANOUT_SIM_MEMORY_CALLS(__wrap_)
FANOUT_SIM_MEMORY_CALLS(__tsan_)

#define FANOUT_SIM_ATOMIC_CHANGE(bits, T, name)                                           \
  T __tsan_atomic##bits##_fetch_##name(volatile T* p, T value, int) {                     \
    sim::checks::access(const_cast<T*>(p), sizeof(T), true, true, true, FANOUT_SIM_CODE); \
    return __atomic_fetch_##name(p, value, __ATOMIC_SEQ_CST);                             \
  }
#define FANOUT_SIM_ATOMICS(bits, T)                                                               \
  FANOUT_SIM_ATOMIC_CHANGE(bits, T, add)                                                          \
  FANOUT_SIM_ATOMIC_CHANGE(bits, T, sub)                                                          \
  FANOUT_SIM_ATOMIC_CHANGE(bits, T, and)                                                          \
  FANOUT_SIM_ATOMIC_CHANGE(bits, T, or)                                                           \
  FANOUT_SIM_ATOMIC_CHANGE(bits, T, xor)                                                          \
  T __tsan_atomic##bits##_load(const volatile T* p, int) {                                        \
    sim::checks::access(const_cast<const T*>(p), sizeof(T), true, false, true, FANOUT_SIM_CODE);  \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                  \
  }                                                                                               \
  void __tsan_atomic##bits##_store(volatile T* p, T value, int) {                                 \
    sim::checks::access(const_cast<T*>(p), sizeof(T), false, true, true, FANOUT_SIM_CODE);        \
    __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                                 \
  }                                                                                               \
  T __tsan_atomic##bits##_exchange(volatile T* p, T value, int) {                                 \
    sim::checks::access(const_cast<T*>(p), sizeof(T), true, true, true, FANOUT_SIM_CODE);         \
    return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);                                       \
  }                                                                                               \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* p, T* old, T value, int, int) {   \
    sim::checks::access(const_cast<T*>(p), sizeof(T), true, true, true, FANOUT_SIM_CODE);         \
    return __atomic_compare_exchange_n(p, old, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }                                                                                               \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile T* p, T* old, T value, int, int) {     \
    sim::checks::access(const_cast<T*>(p), sizeof(T), true, true, true, FANOUT_SIM_CODE);         \
    return __atomic_compare_exchange_n(p, old, value, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);  \
  }                                                                                               \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T old, T value, int, int) {         \
    sim::checks::access(const_cast<T*>(p), sizeof(T), true, true, true, FANOUT_SIM_CODE);         \
    __atomic_compare_exchange_n(p, &old, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);       \
    return old;                                                                                   \
  }
FANOUT_SIM_ATOMICS(8, std::uint8_t)
FANOUT_SIM_ATOMICS(16, std::uint16_t)
FANOUT_SIM_ATOMICS(32, std::uint32_t)
FANOUT_SIM_ATOMICS(64, std::uint64_t)
}
// NOLINTEND

void sim::checks::fill_unseen(void* memory, int value, std::size_t bytes) {
  __real_memset(memory, value, bytes);
}
