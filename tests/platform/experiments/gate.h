// SPDX-License-Identifier: Apache-2.0
// Work that holds a stream up, and calls that may have to wait for it.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "tests/platform/api/cuda_check.h"

namespace fanout::test {

/// A host function in the stream that does not end before open(). It is launched by a thread of its own, since a
/// platform may run it at the call. Not for late mode, where it would run in the thread that asks for it.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) : launcher_([this, stream] { (void)cudaLaunchHostFunc(stream, hold, this); }) {
    while (!entered_) std::this_thread::yield();
  }
  ~Gate() {
    open();
    launcher_.join();
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void open() { open_ = true; }

 private:
  static void hold(void* self) {
    auto& gate = *static_cast<Gate*>(self);
    gate.entered_ = true;
    while (!gate.open_) std::this_thread::yield();
  }
  std::atomic<bool> entered_{false}, open_{false};
  std::thread launcher_;
};

/// Makes a call in a thread of its own, with the device that is current here.
template <class Call>
class Attempt {
 public:
  explicit Attempt(Call call) {
    int device = 0;
    REQUIRE_OK(cudaGetDevice(&device));
    thread_ = std::thread([this, call = std::move(call), device] {
      (void)cudaSetDevice(device);
      result_ = static_cast<int>(call());
      done_ = true;
    });
  }
  ~Attempt() {
    if (thread_.joinable()) thread_.join();
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  /// Whether it is back within a second.
  bool returns_soon() const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    while (!done_ && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return done_;
  }
  /// Waits for it.
  int result() {
    if (thread_.joinable()) thread_.join();
    return result_;
  }

 private:
  std::atomic<bool> done_{false};
  std::atomic<int> result_{-1};
  std::thread thread_;
};

}  // namespace fanout::test
