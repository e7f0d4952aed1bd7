// SPDX-License-Identifier: Apache-2.0
// How the other parts of the platform (kernel launches, cuBLAS, NCCL) queue work on a simulated device.
#pragma once

#include <cstddef>
#include <type_traits>

#include "sim/host_api.h"

namespace sim {

/// A borrowed callable, which holds all it needs by value. In eager mode it runs before submit returns, in late mode a
/// copy of its bytes runs later.
struct WorkRef {
  void* object;
  void (*run)(void* object);
  std::size_t bytes;
};

template <class Work>
WorkRef work_ref(Work& work) {
  static_assert(std::is_trivially_copyable_v<Work>, "work is kept as bytes until it runs");
  static_assert(alignof(Work) <= alignof(std::max_align_t));
  return {&work, [](void* object) { (*static_cast<Work*>(object))(); }, sizeof(Work)};
}

/// One device pointer that an operation will touch; null is allowed and means "none".
struct Access {
  const void* pointer = nullptr;
  bool write = false;
  std::size_t bytes = 1;  // from there on, which it touches for certain
};

/// Launches a kernel: checks the limits of grid, block and shared memory (9), the stream (400), that the stream's
/// device is the current one (400), and that every pointer can be reached from that device: its own memory, pinned host
/// memory, a peer's with access. Otherwise the device gets the sticky error 700, as on a GPU noticed by a later call,
/// and the kernel does not run. `kernel_name` must live as long as the program.
cudaError_t submit_launch(const cudaLaunchConfig_t& config, const char* kernel_name, const Access* accesses, int count,
                          WorkRef work);

/// Queues any other work of cuBLAS and NCCL: same stream order, same pointer checks. The stream's device must be
/// current only if `need_current`. `what` names the operation in reports.
cudaError_t submit_work(cudaStream_t stream, const char* what, const Access* accesses, int count, WorkRef work,
                        bool need_current);

/// The device whose memory holds `pointer`; -1: pinned host memory; -2: anything else. Arithmetic on the address.
int device_of(const void* pointer);

/// The device of a live stream, default streams of the current device included; -1 if it is not a live stream.
int stream_device(cudaStream_t stream);

/// The current device of this host thread.
int current_device();

/// The sticky error of a device, or cudaSuccess.
cudaError_t sticky_error(int device);

}  // namespace sim
