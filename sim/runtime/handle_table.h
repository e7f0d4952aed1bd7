// SPDX-License-Identifier: Apache-2.0
// Objects behind opaque handles. A handle is checked by arithmetic, so garbage and destroyed ones are told apart
// without touching them.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "sim/runtime/memory_marks.h"

namespace sim {

enum class HandleState : std::uint8_t { garbage, live, destroyed };

template <class T, std::size_t kCapacity>
class HandleTable {
 public:
  HandleTable() {
    void* memory = mmap(nullptr, kCapacity * sizeof(T), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    mark_as_root(memory, kCapacity * sizeof(T));
    base_ = reinterpret_cast<std::uintptr_t>(memory);
  }
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  /// A new live object, or null when all are taken.
  template <class... A>
  T* create(A&&... arguments) {
    std::lock_guard guard(mutex_);
    std::size_t index = used_;
    // Destroyed handles rest for as long as possible, so that their use is noticed.
    if (resting_.size() > kRest || (index == kCapacity && !resting_.empty())) {
      index = resting_.front();
      resting_.pop_front();
    } else if (index < kCapacity) {
      ++used_;
    } else {
      return nullptr;
    }
    T* object = new (at(index)) T(std::forward<A>(arguments)...);
    states_[index].store(HandleState::live, std::memory_order_release);
    return object;
  }

  /// Marks the object destroyed. False if another thread did it first.
  bool destroy(T* object) {
    std::lock_guard guard(mutex_);
    const std::size_t index = index_of(object);
    if (states_[index].load(std::memory_order_relaxed) != HandleState::live) return false;
    states_[index].store(HandleState::destroyed, std::memory_order_release);
    resting_.push_back(index);
    return true;
  }

  HandleState state(const void* handle) const {
    const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(handle) - base_;
    const std::size_t index = offset / sizeof(T);
    if (offset >= kCapacity * sizeof(T) || offset % sizeof(T) != 0) return HandleState::garbage;
    return states_[index].load(std::memory_order_acquire);
  }

  /// The live objects that `wanted` picks, in the order of their addresses.
  template <class F>
  std::vector<T*> live(F wanted) {
    std::lock_guard guard(mutex_);
    std::vector<T*> found;
    for (std::size_t index = 0; index < used_; ++index)
      if (states_[index].load(std::memory_order_relaxed) == HandleState::live && wanted(*at(index)))
        found.push_back(at(index));
    return found;
  }

 private:
  static constexpr std::size_t kRest = kCapacity / 16;
  T* at(std::size_t index) const { return reinterpret_cast<T*>(base_ + index * sizeof(T)); }
  std::size_t index_of(const T* object) const { return (reinterpret_cast<std::uintptr_t>(object) - base_) / sizeof(T); }

  std::uintptr_t base_ = 0;
  std::mutex mutex_;
  std::deque<std::size_t> resting_;
  std::size_t used_ = 0;
  std::atomic<HandleState> states_[kCapacity] = {};
};

}  // namespace sim
