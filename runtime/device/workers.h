// SPDX-License-Identifier: Apache-2.0
// Long-lived threads that drive several devices at once. Lane 0 is the calling thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace fanout {

/// A word to wait on: spins for about 100 µs, then parks. That outlasts what the caller does between two phases of a
/// step (loss, gather, checks), and a park would cost about 50 µs each time.
class Signal {
 public:
  std::uint32_t value() const { return value_.load(std::memory_order_acquire); }
  /// Changes the value and wakes who waits.
  void advance();
  /// Returns once the value differs from `seen`.
  void wait_until_differs_from(std::uint32_t seen) const;

 private:
  std::atomic<std::uint32_t> value_{0};
  mutable std::atomic<int> parked_{0};
};

/// A fixed set of threads. One caller at a time; a second one, or a call from inside, works alone in its own thread.
class Workers {
 public:
  /// Lane 0 is the caller, so `lanes - 1` threads are started.
  explicit Workers(int lanes);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// The workers of this process: as many lanes as there are devices, and never more than cores this process may use.
  static Workers& of_process();

  int lanes() const { return static_cast<int>(slots_.size()); }

  /// Calls work(lane, used) for each lane below `used`, each in its own thread, and returns when all are done. `used`
  /// is at most `lanes` and lanes(); it is 1 where the workers are taken. The exception of the lowest lane is rethrown.
  template <class Work>
  void run(int lanes, Work&& work) {
    run_erased(lanes, const_cast<void*>(static_cast<const void*>(&work)), [](void* object, int lane, int used) {
      (*static_cast<std::remove_reference_t<Work>*>(object))(lane, used);
    });
  }

 private:
  using Function = void (*)(void* object, int lane, int used);
  struct alignas(128) Slot {
    Signal posted, done;
    Function function = nullptr;
    void* object = nullptr;
    int used = 1;
    std::exception_ptr error;
    std::thread thread;
  };

  void run_erased(int lanes, void* object, Function function);
  void serve(int lane);
  static void run_slot(Slot& slot, int lane);

  std::vector<std::unique_ptr<Slot>> slots_;
  std::atomic<bool> taken_{false};
  std::atomic<bool> quit_{false};
};

}  // namespace fanout
