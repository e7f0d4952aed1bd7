// SPDX-License-Identifier: Apache-2.0
// CUDA's atomic functions. The threads of a block share one host thread, but two streams may run on two, so these are
// atomic between host threads as well; the order is relaxed, as on a GPU.
#pragma once

#include <type_traits>

namespace sim {
namespace {

template <class T>
inline constexpr bool is_counter =
    std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, unsigned long long>;
template <class T>
inline constexpr bool is_float = std::is_same_v<T, float> || std::is_same_v<T, double>;

/// Replaces *address by change(*address) and returns what was there.
template <class T, class Change>
[[gnu::always_inline]] inline T atomic_change(T* address, Change change) {
  T seen;
  __atomic_load(address, &seen, __ATOMIC_RELAXED);
  T next = change(seen);
  while (!__atomic_compare_exchange(address, &seen, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    next = change(seen);
  }
  return seen;
}

}  // namespace
}  // namespace sim

// The second argument is converted to the type that the first points to, as by CUDA's overloads.
#define FANOUT_SIM_ATOMIC(condition) \
  template <class T>                 \
  requires(condition) [[gnu::always_inline]] static inline T

FANOUT_SIM_ATOMIC(sim::is_counter<T> || sim::is_float<T>)
atomicAdd(T* address, std::type_identity_t<T> value) {
  if constexpr (sim::is_float<T>) {
    return sim::atomic_change(address, [value](T seen) { return seen + value; });
  } else {
    return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
  }
}

FANOUT_SIM_ATOMIC((std::is_same_v<T, int> || std::is_same_v<T, unsigned>))
atomicSub(T* address, std::type_identity_t<T> value) {
  return __atomic_fetch_sub(address, value, __ATOMIC_RELAXED);
}

FANOUT_SIM_ATOMIC((sim::is_counter<T> || std::is_same_v<T, long long>))
atomicMax(T* address, std::type_identity_t<T> value) {
  return sim::atomic_change(address, [value](T seen) { return seen < value ? value : seen; });
}

FANOUT_SIM_ATOMIC((sim::is_counter<T> || std::is_same_v<T, long long>))
atomicMin(T* address, std::type_identity_t<T> value) {
  return sim::atomic_change(address, [value](T seen) { return value < seen ? value : seen; });
}

FANOUT_SIM_ATOMIC((sim::is_counter<T> || std::is_same_v<T, float>))
atomicExch(T* address, std::type_identity_t<T> value) {
  T before;
  __atomic_exchange(address, &value, &before, __ATOMIC_RELAXED);
  return before;
}

FANOUT_SIM_ATOMIC((sim::is_counter<T> || std::is_same_v<T, unsigned short>))
atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  __atomic_compare_exchange(address, &compare, &value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return compare;
}

FANOUT_SIM_ATOMIC(sim::is_counter<T>)
atomicAnd(T* address, std::type_identity_t<T> value) {
  return __atomic_fetch_and(address, value, __ATOMIC_RELAXED);
}

FANOUT_SIM_ATOMIC(sim::is_counter<T>)
atomicOr(T* address, std::type_identity_t<T> value) {
  return __atomic_fetch_or(address, value, __ATOMIC_RELAXED);
}

FANOUT_SIM_ATOMIC(sim::is_counter<T>)
atomicXor(T* address, std::type_identity_t<T> value) {
  return __atomic_fetch_xor(address, value, __ATOMIC_RELAXED);
}

FANOUT_SIM_ATOMIC((std::is_same_v<T, unsigned>))
atomicInc(T* address, unsigned limit) {
  return sim::atomic_change(address, [limit](unsigned seen) { return seen >= limit ? 0 : seen + 1; });
}

FANOUT_SIM_ATOMIC((std::is_same_v<T, unsigned>))
atomicDec(T* address, unsigned limit) {
  return sim::atomic_change(address, [limit](unsigned seen) { return seen == 0 || seen > limit ? limit : seen - 1; });
}

#undef FANOUT_SIM_ATOMIC
