// SPDX-License-Identifier: Apache-2.0
// Streams and events: an owner and a borrower of an in-order queue on a device, and the order between two of them.
#pragma once

#include <cuda_runtime.h>

#include "runtime/device/device.h"

namespace fanout {

/// Borrows a stream: the CUDA handle, and the device it belongs to.
struct StreamView {
  cudaStream_t handle = nullptr;
  Device device = Device::host();

  /// Blocks the host until all work queued so far is done; throws what that work did wrong.
  void synchronize() const;
};

/// Whether an event says when it was passed; one that does costs the device a little more.
enum class EventTime : bool { none, kept };

/// A mark in a stream. Reused: a wait that was queued before a new record keeps the old mark.
class Event {
 public:
  explicit Event(Device device, EventTime time = EventTime::none);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// Marks the work queued in `stream` so far; the stream must be on the event's device.
  void record(StreamView stream);
  /// Blocks the host until the marked work is done; returns at once if nothing was marked.
  void synchronize() const;
  /// Seconds from `earlier`, an event of the same device, to this one. Both keep their time and were passed.
  double seconds_since(const Event& earlier) const;
  cudaEvent_t handle() const { return handle_; }

 private:
  cudaEvent_t handle_ = nullptr;
};

/// Owns a stream that does not synchronise with the legacy default stream.
class Stream {
 public:
  explicit Stream(Device device);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  StreamView view() const { return {handle_, device_}; }
  /// An event for ordering other streams behind this one.
  Event& event() { return event_; }

 private:
  Device device_;
  cudaStream_t handle_ = nullptr;
  Event event_;
};

/// Work queued in `waiter` from now on starts after all work queued in `on` so far; the devices may differ.
void wait_for(StreamView waiter, Stream& on);

}  // namespace fanout
