// SPDX-License-Identifier: Apache-2.0
// The contended path of SpinLock.
#include "sim/runtime/spin_lock.h"

#include <chrono>
#include <thread>

namespace sim {
namespace {
constexpr int kSpins = 200;    // about a microsecond
constexpr int kYields = 1000;  // a holder may be running a whole kernel

void pause_once() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}
}  // namespace

void SpinLock::lock_slow() {
  for (int round = 0;; ++round) {
    for (int spin = 0; spin < kSpins && held_.load(std::memory_order_relaxed); ++spin) pause_once();
    if (!held_.exchange(true, std::memory_order_acquire)) return;
    if (round < kYields)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace sim
