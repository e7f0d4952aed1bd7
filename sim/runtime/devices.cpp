// SPDX-License-Identifier: Apache-2.0
// Choosing, synchronising and resetting devices; versions.
#include <cstring>

#include "sim/runtime/order.h"
#include "sim/runtime/streams.h"

using namespace sim;

namespace {

constexpr int kVersion = CUDART_VERSION;

cudaError_t version(int* out) {
  if (!out) return leave(cudaErrorInvalidValue);
  *out = kVersion;
  return cudaSuccess;
}

// cuDevicePrimaryCtxGetState; 101: no such device.
int primary_context_state(int device, unsigned int* flags, int* active) {
  if (!is_device(device)) return 101;
  *flags = 0;
  *active = device_at(device).has_context.load(std::memory_order_relaxed) ? 1 : 0;
  return 0;
}

std::vector<Stream*> streams_of(const Device& device) {
  return machine->streams.live([&](const Stream& stream) { return stream.device == device.index; });
}

}  // namespace

// No device is needed for the versions.
cudaError_t cudaDriverGetVersion(int* out) {
  return version(out);
}
cudaError_t cudaRuntimeGetVersion(int* out) {
  return version(out);
}

cudaError_t cudaGetDeviceCount(int* count) {
  return api([&]() -> cudaError_t {
    if (!count) return cudaErrorInvalidValue;
    *count = machine->device_count();
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return api([&]() -> cudaError_t {
    if (!device) return cudaErrorInvalidValue;
    *device = this_thread.device;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return api([&]() -> cudaError_t {
    if (!is_device(device)) return cudaErrorInvalidDevice;
    this_thread.device = device;
    create_context(device_at(device));
    return cudaSuccess;
  });
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned, unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* result) {
  return api([&]() -> cudaError_t {
    if (!symbol || !function || flags > 2) return cudaErrorInvalidValue;
    const bool known = std::strcmp(symbol, "cuDevicePrimaryCtxGetState") == 0;
    *function = known ? reinterpret_cast<void*>(&primary_context_state) : nullptr;
    if (result) *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return known || result ? cudaSuccess : cudaErrorSymbolNotFound;
  });
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned flags) {
  return api([&]() -> cudaError_t {
    if (!is_device(device)) return cudaErrorInvalidDevice;
    if (flags != 0) return cudaErrorInvalidValue;
    create_context(device_at(device));
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return device_api([&](Device& device) {
    for (Stream* stream : streams_of(device)) wait_for(*stream);
    if (order::is_on()) order::host_waited(device);
    device.after_synchronize();
    return device.sticky.load(std::memory_order_relaxed);
  });
}

cudaError_t cudaDeviceReset() {
  return device_api([](Device& device) {
    if (is_late()) late::run_device(device);
    if (order::is_on()) order::host_waited(device);
    for (Stream* stream : streams_of(device))
      if (stream != device.legacy_stream && machine->streams.destroy(stream)) objects::ended(stream);
    for (Event* event : machine->events.live([&](const Event& each) { return each.device == device.index; })) {
      if (!machine->events.destroy(event)) continue;
      objects::ended(event);
      if (order::is_on()) order::forget(*event);
    }
    device.mallocs.clear();  // memory from pools stays
    objects::ended_all(objects::Kind::device_memory, device.index);
    device.peers.store(0, std::memory_order_release);
    device.has_context.store(false, std::memory_order_relaxed);
    return cudaSuccess;
  });
}
