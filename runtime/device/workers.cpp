// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/workers.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/device/device.h"

namespace fanout {
namespace {

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return static_cast<int>(std::thread::hardware_concurrency());
  return CPU_COUNT(&set);
}

}  // namespace

void Signal::advance() {
  value_.fetch_add(1, std::memory_order_seq_cst);
  if (parked_.load(std::memory_order_seq_cst) != 0) value_.notify_all();
}

void Signal::wait_until_differs_from(std::uint32_t seen) const {
  using Clock = std::chrono::steady_clock;
  constexpr auto kSpin = std::chrono::microseconds(100);
  const auto start = Clock::now();
  do {
    for (int i = 0; i < 64; ++i) {
      if (value() != seen) return;
      pause_briefly();
    }
  } while (Clock::now() - start < kSpin);
  parked_.fetch_add(1, std::memory_order_seq_cst);
  while (value() == seen) value_.wait(seen, std::memory_order_seq_cst);
  parked_.fetch_sub(1, std::memory_order_seq_cst);
}

Workers::Workers(int lanes) {
  for (int lane = 0; lane < std::max(1, lanes); ++lane) slots_.push_back(std::make_unique<Slot>());
  for (int lane = 1; lane < lanes; ++lane) {
    slots_[static_cast<std::size_t>(lane)]->thread = std::thread([this, lane] { serve(lane); });
  }
}

Workers::~Workers() {
  quit_ = true;
  for (auto& slot : slots_) {
    if (!slot->thread.joinable()) continue;
    slot->posted.advance();
    slot->thread.join();
  }
}

Workers& Workers::of_process() {
  // Not destroyed: a worker that calls exit() could not be joined by itself.
  static Workers& workers = *new Workers(std::max(1, std::min(device_count(), usable_cores())));
  return workers;
}

void Workers::run_slot(Slot& slot, int lane) {
  try {
    slot.function(slot.object, lane, slot.used);
  } catch (...) {
    slot.error = std::current_exception();
  }
}

void Workers::serve(int lane) {
  Slot& slot = *slots_[static_cast<std::size_t>(lane)];
  std::uint32_t seen = 0;
  for (;;) {
    slot.posted.wait_until_differs_from(seen);
    ++seen;
    if (quit_) return;
    run_slot(slot, lane);
    slot.done.advance();
  }
}

void Workers::run_erased(int lanes, void* object, Function function) {
  lanes = std::min(lanes, this->lanes());
  if (lanes <= 1 || taken_.exchange(true, std::memory_order_acquire)) {
    function(object, 0, 1);
    return;
  }
  for (int lane = lanes - 1; lane >= 0; --lane) {
    Slot& slot = *slots_[static_cast<std::size_t>(lane)];
    slot.function = function;
    slot.object = object;
    slot.used = lanes;
    if (lane > 0) slot.posted.advance();
  }
  run_slot(*slots_[0], 0);
  std::exception_ptr first = std::exchange(slots_[0]->error, nullptr);
  for (int lane = 1; lane < lanes; ++lane) {
    Slot& slot = *slots_[static_cast<std::size_t>(lane)];
    const std::uint32_t wanted = slot.posted.value();
    for (std::uint32_t now = slot.done.value(); now != wanted; now = slot.done.value()) {
      slot.done.wait_until_differs_from(now);
    }
    const std::exception_ptr error = std::exchange(slot.error, nullptr);
    if (!first) first = error;
  }
  taken_.store(false, std::memory_order_release);
  if (first) std::rethrow_exception(first);
}

}  // namespace fanout
