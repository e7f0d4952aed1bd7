// SPDX-License-Identifier: Apache-2.0
// What looks at the gradients of a node's outputs: hooks, and grad().
#pragma once

#include <deque>

#include "runtime/autograd/hook.h"
#include "runtime/tensor/tensor.h"

namespace fanout {

/// Few nodes have one, so a node keeps it behind a pointer.
class NodeHooks {
 public:
  struct Slot {
    int number = 0;
    HookList<TensorHook> hooks;
    Tensor* captured = nullptr;  // where grad() wants this output's gradient, while it runs
  };

  /// Output `number`'s, made if it is not there.
  Slot& slot(int number);
  /// Output `number`'s, or null.
  const Slot* find(int number) const;

 private:
  std::deque<Slot> slots_;  // a hook may register another one: references stay
};

}  // namespace fanout
