// SPDX-License-Identifier: Apache-2.0
// What the runtime keeps for each device that is used: streams, a cuBLAS handle, a memory pool that keeps its memory.
// Made at a device's first use, so a device that nobody names gets no context and no byte.
#pragma once

#include <cublas_v2.h>

#include <array>
#include <memory>

#include "runtime/device/stream.h"

namespace fanout {

class DeviceContext {
 public:
  explicit DeviceContext(Device device);
  ~DeviceContext();
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  /// Operators and copies of this device run here, in the order in which they were called.
  Stream& compute() { return compute_; }
  /// Collectives run here, beside the computation; those of different channels beside each other. The stream of
  /// a channel other than 0 is made when it is first asked for, by one thread at a time.
  Stream& communication(int channel = 0);
  /// Bound to the compute stream. Used by one thread at a time: the one that works for this device.
  cublasHandle_t blas() const { return blas_; }

 private:
  friend void synchronize(Device device);

  Stream compute_;
  std::array<std::unique_ptr<Stream>, kMaxDevices> communication_;  // by channel
  cublasHandle_t blas_ = nullptr;
};

/// The context of `device`, made at the first call; from any thread. Throws as require_device.
DeviceContext& context(Device device);

/// Waits for all devices and releases what the runtime keeps for them: streams, handles, and the memory in their pools.
/// Tensors on devices, communicators (Communicator::release_all) and everything else that uses them must be gone; a
/// device that is used again gets a new context. Without it the driver does the same when the process ends.
void release_devices();

/// The compute stream of `device`.
inline StreamView compute_stream(Device device) {
  return context(device).compute().view();
}

/// Blocks the host until all work of all streams of `device` is done.
void synchronize(Device device);

}  // namespace fanout
