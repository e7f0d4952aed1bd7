// SPDX-License-Identifier: Apache-2.0
// Functions that the user hangs on to something: on a tensor's gradient here, on a module's call in nn/hooked.h.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace fanout {

namespace detail {
class HookRegistry {
 public:
  virtual ~HookRegistry() = default;
  virtual void remove(std::uint64_t number) = 0;
};
}  // namespace detail

/// Names one hook, which stays until it is removed: letting the handle go changes nothing.
class HookHandle {
 public:
  HookHandle() = default;
  HookHandle(std::weak_ptr<detail::HookRegistry> registry, std::uint64_t number)
      : registry_(std::move(registry)), number_(number) {}

  /// The hook is not called any more. At any time, from any thread, from inside a hook too, and more than once.
  void remove() const {
    if (const auto registry = registry_.lock()) registry->remove(number_);
  }

 private:
  std::weak_ptr<detail::HookRegistry> registry_;
  std::uint64_t number_ = 0;
};

/// Hooks of one kind in the order of their registration. May be used by several threads. A copy has the same hooks, as
/// copies of their functions, and is a list of its own: a handle removes from the list that gave it.
template <class Function>
class HookList {
 public:
  HookList() = default;
  HookList(const HookList& other) : state_(other.state_ ? std::make_shared<State>(*other.state_) : nullptr) {}
  HookList(HookList&&) noexcept = default;
  HookList& operator=(HookList other) noexcept {
    state_ = std::move(other.state_);
    return *this;
  }
  ~HookList() = default;

  HookHandle add(Function function) {
    if (!state_) state_ = std::make_shared<State>();
    return {state_, state_->add(std::move(function))};
  }
  bool empty() const { return !state_ || state_->entries().empty(); }

  /// Calls visit(function) for every hook that is there now; one that is removed meanwhile is left out.
  template <class Visit>
  void for_each(Visit&& visit) const {
    if (!state_) return;
    for (const std::shared_ptr<Entry>& entry : state_->entries()) {
      if (!entry->removed) visit(std::as_const(entry->function));
    }
  }

 private:
  struct Entry {
    Entry(Function its_function, std::uint64_t its_number) : function(std::move(its_function)), number(its_number) {}
    Function function;
    std::uint64_t number;
    std::atomic<bool> removed{false};
  };

  class State final : public detail::HookRegistry {
   public:
    State() = default;
    State(const State& other) : detail::HookRegistry() {
      for (const std::shared_ptr<Entry>& entry : other.entries()) add(entry->function);
    }
    std::uint64_t add(Function function) {
      const std::lock_guard guard(lock_);
      entries_.push_back(std::make_shared<Entry>(std::move(function), ++last_number_));
      return last_number_;
    }
    void remove(std::uint64_t number) override {
      std::shared_ptr<Entry> gone;  // destroyed outside the lock: what the function holds may remove hooks itself
      const std::lock_guard guard(lock_);
      const auto has_number = [&](const std::shared_ptr<Entry>& entry) { return entry->number == number; };
      const auto found = std::find_if(entries_.begin(), entries_.end(), has_number);
      if (found == entries_.end()) return;
      gone = *found;
      gone->removed = true;
      entries_.erase(found);
    }
    std::vector<std::shared_ptr<Entry>> entries() const {
      const std::lock_guard guard(lock_);
      return entries_;
    }

   private:
    mutable std::mutex lock_;
    std::vector<std::shared_ptr<Entry>> entries_;
    std::uint64_t last_number_ = 0;
  };

  std::shared_ptr<State> state_;
};

/// Sees a gradient; returns another one in its place, or an undefined tensor to leave it as it is.
using TensorHook = std::function<Tensor(const Tensor& gradient)>;

/// Calls `hook` in every backward (and grad) with the gradient of `tensor`, once it is complete and before it is used.
/// For a leaf that is the sum of what this backward brings, without what was accumulated before; what the hook returns
/// is added to the leaf's gradient; of a sparse one it is the whole matrix. For a result of an operator it is what goes
/// on to the operator's inputs. Hooks run in the order of their registration, on the thread that drives the tensor's
/// device, under the grad mode of the pass: with create_graph they are differentiated too. A hook that writes into the
/// gradient must write into a copy.
///
/// A tensor that returns with another shape, dtype or device makes the backward throw InvalidArgument. Throws
/// InvalidArgument if `tensor` requires no gradient. A hook that holds its own tensor, if that is the result of an
/// operator, keeps the graph alive. Source of the behaviour: torch.Tensor.register_hook.
HookHandle register_hook(const Tensor& tensor, TensorHook hook);

}  // namespace fanout
