// SPDX-License-Identifier: Apache-2.0
// cudaStream*, cudaLaunchHostFunc.
#include "sim/runtime/streams.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sim/runtime/order.h"
#include "sim/runtime/report.h"

namespace sim {
namespace {

constexpr int kLeastPriority = 0;  // lower numbers are more urgent
constexpr int kGreatestPriority = -5;

// False if it has ended already.
bool end_stream(Stream* stream) {
  if (is_late()) late::close(*stream);
  if (!machine->streams.destroy(stream)) return false;
  objects::ended(stream);
  return true;
}

// One per thread and device, made when first used.
struct PerThreadStreams {
  std::array<Stream*, kMaxDevices> streams{};
  ~PerThreadStreams() {
    for (Stream* stream : streams)
      if (stream) end_stream(stream);
  }
};
thread_local PerThreadStreams per_thread_streams;

cudaError_t create_stream(cudaStream_t* handle, unsigned flags, int priority) {
  return device_api([&](Device& device) -> cudaError_t {
    if (!handle || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking))) return cudaErrorInvalidValue;
    Stream* const stream =
        machine->make_stream(device.index, flags, std::clamp(priority, kGreatestPriority, kLeastPriority));
    if (!stream) return cudaErrorMemoryAllocation;
    objects::made(objects::Kind::stream, stream, device.index);
    *handle = reinterpret_cast<cudaStream_t>(stream);
    return cudaSuccess;
  });
}

// Writes one property of a stream.
template <class T, class F>
cudaError_t get(cudaStream_t handle, T* out, const char* call, F property) {
  return with_stream(handle, call, [&](const Stream& stream) -> cudaError_t {
    if (!out) return cudaErrorInvalidValue;
    *out = property(stream);
    return cudaSuccess;
  });
}

}  // namespace

Stream* per_thread_stream(int device) {
  Stream*& stream = per_thread_streams.streams[device];
  const bool live = stream && machine->streams.state(stream) == HandleState::live;  // cudaDeviceReset ends it
  if (!live) stream = machine->make_stream(device, cudaStreamDefault, kLeastPriority);
  if (!stream) stop("cudaStreamPerThread: more than %zu streams are alive", kMaxStreams);
  return stream;
}

void stop_for_destroyed(const char* call, const char* kind, const void* handle) {
  stop("%s on current device cuda:%d: %s %p was destroyed before (%s)", call, this_thread.device, kind, handle,
       objects::history(handle).c_str());
}

}  // namespace sim

using namespace sim;

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return create_stream(stream, cudaStreamDefault, kLeastPriority);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return create_stream(stream, flags, kLeastPriority);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return create_stream(stream, flags, priority);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return api([&]() -> cudaError_t {
    const bool is_default = !handle || handle == cudaStreamLegacy || handle == cudaStreamPerThread;
    Stream* const stream = is_default ? nullptr : find_stream(handle, "cudaStreamDestroy");
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (!end_stream(stream)) stop_for_destroyed("cudaStreamDestroy", "stream", handle);
    return sticky_of(*stream);
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return with_stream(handle, "cudaStreamSynchronize", [&](Stream& stream) {
    wait_for(stream);
    if (order::is_on()) order::host_waited(stream);
    device_at(stream.device).after_synchronize();
    return sticky_of(stream);
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return with_stream(handle, "cudaStreamQuery", [](Stream& stream) -> cudaError_t {
    if (is_late()) {
      if (const cudaError_t answer = query(late::end_of(stream), stream.device)) return answer;
    } else {
      if (!stream.lock.try_lock()) return cudaErrorNotReady;
      stream.lock.unlock();
    }
    if (order::is_on()) order::host_waited(stream);
    return sticky_of(stream);
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned flags) {
  return with_stream(handle, "cudaStreamWaitEvent", [&](Stream& stream) -> cudaError_t {
    const Event* const event = find_event(event_handle, "cudaStreamWaitEvent");
    if (!event) return cudaErrorInvalidResourceHandle;
    if (flags > cudaEventWaitExternal) return cudaErrorInvalidValue;
    if (order::is_on()) order::stream_waits(stream, *event);
    if (is_late()) {
      late::enqueue(stream, {}, {event->recorded_at});
      return cudaSuccess;
    }
    // What was recorded is done already; the load makes its effects visible here.
    (void)event->recorded_ns.load(std::memory_order_acquire);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  return get(handle, flags, "cudaStreamGetFlags", [](const Stream& stream) { return stream.flags; });
}
cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return get(handle, priority, "cudaStreamGetPriority", [](const Stream& stream) { return stream.priority; });
}
cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return get(handle, device, "cudaStreamGetDevice", [](const Stream& stream) { return stream.device; });
}
cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  return get(handle, id, "cudaStreamGetId", [](const Stream& stream) { return stream.id; });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return device_api([&](Device&) {
    if (least) *least = kLeastPriority;
    if (greatest) *greatest = kGreatestPriority;
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* user_data) {
  return with_stream(handle, "cudaLaunchHostFunc", [&](Stream& stream) -> cudaError_t {
    if (!function) return cudaErrorInvalidValue;
    if (order::is_on()) order::operation(stream, "cudaLaunchHostFunc", nullptr, 0);
    run_in_order(stream, [function, user_data] {
      const bool outer = std::exchange(this_thread.in_host_function, true);
      function(user_data);
      this_thread.in_host_function = outer;
    });
    return cudaSuccess;
  });
}
