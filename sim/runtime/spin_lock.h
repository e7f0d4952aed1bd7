// SPDX-License-Identifier: Apache-2.0
// A lock for short critical sections: spins, then yields, then sleeps.
#pragma once

#include <atomic>

namespace sim {

class SpinLock {
 public:
  void lock() {
    if (!held_.exchange(true, std::memory_order_acquire)) [[likely]]
      return;
    lock_slow();
  }
  bool try_lock() { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  void lock_slow();
  std::atomic<bool> held_{false};
};

}  // namespace sim
