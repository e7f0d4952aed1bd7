// SPDX-License-Identifier: Apache-2.0
// From a stream or event handle to the object, with the checks; and running an operation in stream order.
#pragma once

#include <mutex>
#include <utility>

#include "sim/runtime/machine.h"

namespace sim {

Stream* per_thread_stream(int device);
[[noreturn, gnu::cold]] void stop_for_destroyed(const char* call, const char* kind, const void* handle);

/// The stream behind a handle, null for garbage. A destroyed stream stops the program: its use is undefined.
inline Stream* find_stream(cudaStream_t handle, const char* call) {
  if (handle == nullptr || handle == cudaStreamLegacy) return this_device().legacy_stream;
  if (handle == cudaStreamPerThread) return per_thread_stream(this_thread.device);
  switch (machine->streams.state(handle)) {
    case HandleState::live:
      return reinterpret_cast<Stream*>(handle);
    case HandleState::destroyed:
      stop_for_destroyed(call, "stream", handle);
    default:
      return nullptr;
  }
}

/// The event behind a handle, null for null and garbage.
inline Event* find_event(cudaEvent_t handle, const char* call) {
  switch (machine->events.state(handle)) {
    case HandleState::live:
      return reinterpret_cast<Event*>(handle);
    case HandleState::destroyed:
      stop_for_destroyed(call, "event", handle);
    default:
      return nullptr;
  }
}

inline cudaError_t sticky_of(const Stream& stream) {
  return device_at(stream.device).sticky.load(std::memory_order_relaxed);
}

/// Calls body(Stream&) with the live stream behind the handle: 400 for garbage, its device's sticky error otherwise.
template <class F>
cudaError_t with_stream(cudaStream_t handle, const char* call, F body) {
  return api([&]() -> cudaError_t {
    Stream* const stream = find_stream(handle, call);
    if (!stream) return cudaErrorInvalidResourceHandle;
    create_context(device_at(stream->device));
    if (const cudaError_t sticky = sticky_of(*stream)) return sticky;
    return body(*stream);
  });
}

/// Runs `work()`, which must hold all it needs by value, as the next operation of the stream. Eager: now, on this
/// thread. `host`: host memory that it touches.
template <class F>
void run_in_order(Stream& stream, F work, late::HostRange host = {}) {
  if (is_late()) [[unlikely]] {
    late::enqueue(stream, std::move(work), {}, host);
    return;
  }
  std::lock_guard guard(stream.lock);
  work();
}

/// Waits until the stream's operations are done and their effects can be seen.
inline void wait_for(Stream& stream) {
  if (is_late()) [[unlikely]] {
    late::run_stream(stream);
    return;
  }
  stream.lock.lock();
  stream.lock.unlock();
}

/// Late mode: whether `point` has passed, as cudaStreamQuery and cudaEventQuery answer it. Asking brings it nearer.
inline cudaError_t query(late::Point point, int device) {
  if (late::has_passed(point)) return device_at(device).sticky.load(std::memory_order_relaxed);
  late::run_one_towards(point);
  return cudaErrorNotReady;
}

}  // namespace sim
