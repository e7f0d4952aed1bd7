// SPDX-License-Identifier: Apache-2.0
// Shared ownership with the count inside the object: one allocation, one pointer.
#pragma once

#include <atomic>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "runtime/tensor/small_objects.h"

namespace fanout {

/// Base of what is shared. `destroy` may be overridden where an object must not be deleted at once.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  static void* operator new(std::size_t bytes) { return detail::allocate_small(bytes); }
  static void operator delete(void* memory, std::size_t bytes) noexcept { detail::free_small(memory, bytes); }

  void acquire() const { owners_.fetch_add(1, std::memory_order_relaxed); }
  void release() const {
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) const_cast<RefCounted*>(this)->destroy();
  }
  bool has_one_owner() const { return owners_.load(std::memory_order_acquire) == 1; }

 protected:
  virtual ~RefCounted() = default;
  virtual void destroy() { delete this; }

 private:
  mutable std::atomic<int> owners_{0};
};

template <class T>
class Intrusive {
 public:
  Intrusive() = default;
  Intrusive(std::nullptr_t) {}
  explicit Intrusive(T* object) : object_(object) {
    if (object_) object_->acquire();
  }
  Intrusive(const Intrusive& other) : Intrusive(other.object_) {}
  Intrusive(Intrusive&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
  requires std::is_convertible_v<U*, T*> Intrusive(const Intrusive<U>& other)
      : Intrusive(static_cast<T*>(other.get())) {}
  Intrusive& operator=(Intrusive other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Intrusive() {
    if (object_) object_->release();
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  friend bool operator==(const Intrusive& a, const Intrusive& b) { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

template <class T, class... Arguments>
Intrusive<T> make_intrusive(Arguments&&... arguments) {
  return Intrusive<T>(new T(std::forward<Arguments>(arguments)...));
}

}  // namespace fanout
