// SPDX-License-Identifier: Apache-2.0
// cudaEvent*. Times are those of the host's clock.
#include "sim/runtime/order.h"
#include "sim/runtime/streams.h"

using namespace sim;

namespace {

// Calls body(Event&) with the live event behind the handle: 400 for null and garbage.
template <class F>
cudaError_t with_event(cudaEvent_t handle, const char* call, F body) {
  return api([&]() -> cudaError_t {
    Event* const event = find_event(handle, call);
    if (!event) return cudaErrorInvalidResourceHandle;
    return body(*event);
  });
}

void note_time(Event& event) {
  const std::int64_t time = event.flags & cudaEventDisableTiming ? 0 : now_ns();
  event.recorded_ns.store(time, std::memory_order_release);
}

// When the record runs, the event may have been recorded again, or destroyed.
void record_late(Stream& stream, Event& event) {
  static std::atomic<std::uint64_t> records{0};
  const std::uint64_t number = ++records;
  event.record_number = number;
  event.recorded_at = late::enqueue(stream, [&event, number] {
    if (event.record_number == number) note_time(event);
  });
}

bool has_times(const Event& event) {
  return !(event.flags & cudaEventDisableTiming) &&
         event.recorded_ns.load(std::memory_order_acquire) != Event::kNeverRecorded;
}

}  // namespace

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  return device_api([&](Device& device) -> cudaError_t {
    constexpr unsigned kKnown = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
    if (!handle || (flags & ~kKnown)) return cudaErrorInvalidValue;
    if ((flags & cudaEventInterprocess) && !(flags & cudaEventDisableTiming)) return cudaErrorInvalidValue;
    Event* const event = machine->events.create(device.index, flags);
    if (!event) return cudaErrorMemoryAllocation;
    objects::made(objects::Kind::event, event, device.index);
    *handle = reinterpret_cast<cudaEvent_t>(event);
    return cudaSuccess;
  });
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventCreate(cudaEvent_t* event, unsigned flags) {
  return cudaEventCreateWithFlags(event, flags);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return with_event(handle, "cudaEventDestroy", [&](Event& event) {
    if (!machine->events.destroy(&event)) stop_for_destroyed("cudaEventDestroy", "event", handle);
    objects::ended(&event);
    if (order::is_on()) order::forget(event);
    return device_at(event.device).sticky.load(std::memory_order_relaxed);
  });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t handle, cudaStream_t stream_handle, unsigned flags) {
  return with_stream(stream_handle, "cudaEventRecord", [&](Stream& stream) -> cudaError_t {
    Event* const event = find_event(handle, "cudaEventRecord");
    if (!event || event->device != stream.device) return cudaErrorInvalidResourceHandle;
    if (flags > cudaEventRecordExternal) return cudaErrorInvalidValue;
    if (order::is_on()) order::recorded(*event, stream);
    if (is_late()) {
      record_late(stream, *event);
      return cudaSuccess;
    }
    run_in_order(stream, [event] { note_time(*event); });
    return cudaSuccess;
  });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return with_event(handle, "cudaEventQuery", [](Event& event) -> cudaError_t {
    if (is_late()) {
      if (const cudaError_t answer = query(event.recorded_at, event.device)) return answer;
    }
    if (order::is_on()) order::host_waited(event);
    (void)event.recorded_ns.load(std::memory_order_acquire);
    return device_at(event.device).sticky.load(std::memory_order_relaxed);
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return with_event(handle, "cudaEventSynchronize", [](Event& event) {
    if (is_late()) late::run_until(event.recorded_at);
    if (order::is_on()) order::host_waited(event);
    (void)event.recorded_ns.load(std::memory_order_acquire);
    device_at(event.device).after_synchronize();
    return device_at(event.device).sticky.load(std::memory_order_relaxed);
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start_handle, cudaEvent_t end_handle) {
  return with_event(start_handle, "cudaEventElapsedTime", [&](Event& start) -> cudaError_t {
    const Event* const end = find_event(end_handle, "cudaEventElapsedTime");
    if (!end) return cudaErrorInvalidResourceHandle;
    if (!milliseconds) return cudaErrorInvalidValue;
    if (is_late() && !(late::has_passed(start.recorded_at) && late::has_passed(end->recorded_at))) {
      late::run_one_towards(end->recorded_at);
      return cudaErrorNotReady;
    }
    if (!has_times(start) || !has_times(*end) || start.device != end->device) return cudaErrorInvalidResourceHandle;
    *milliseconds = static_cast<float>(static_cast<double>(end->recorded_ns - start.recorded_ns) * 1e-6);
    return cudaSuccess;
  });
}
