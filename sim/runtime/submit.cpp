// SPDX-License-Identifier: Apache-2.0
// The way of kernels, cuBLAS and NCCL into a stream. In eager mode the work runs here, on the calling thread.
#include "sim/submit.h"

#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "sim/device/kernel_checks.h"
#include "sim/runtime/function_limits.h"
#include "sim/runtime/order.h"
#include "sim/runtime/protection.h"
#include "sim/runtime/reach.h"
#include "sim/runtime/streams.h"

namespace sim {
namespace {

bool shape_is_legal(const cudaLaunchConfig_t& config) {
  const dim3 grid = config.gridDim, block = config.blockDim;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  return grid.x - 1 < kMaxGridX && grid.y - 1 < kMaxGridYZ && grid.z - 1 < kMaxGridYZ && block.x - 1 < kMaxThreads &&
         block.y - 1 < kMaxThreads && block.z - 1 < kMaxBlockZ && threads <= kMaxThreads &&
         config.dynamicSmemBytes <= dynamic_shared_limit();
}

// This thread runs an operation of a device that was queued at that place. Collectives run inside of one another, once
// for each rank.
class Running {
 public:
  Running(int device, const SourceLine& place)
      : opened_(protection::open_to(device)),
        outer_device_(std::exchange(this_thread.running_device, device)),
        outer_place_(std::exchange(this_thread.launched_at, place)) {}
  ~Running() {
    this_thread.running_device = outer_device_;
    this_thread.launched_at = outer_place_;
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  const protection::Opened opened_;
  const int outer_device_;
  const SourceLine outer_place_;
};

// The borrowed work and what it writes, as an operation that lives until it runs.
std::function<void()> owned(const char* name, int device, const Access* accesses, int count, WorkRef work) {
  std::shared_ptr<void> copy(::operator new(work.bytes), [](void* memory) { ::operator delete(memory); });
  std::memcpy(copy.get(), work.object, work.bytes);
  std::vector<Block> written;
  for (int i = 0; protection::is_on() && i < count; ++i) {
    if (const Block block = protection::written_block(accesses[i])) written.push_back(block);
  }
  return [=, run = work.run, place = call_place, written = std::move(written)] {
    const Running now(device, place);
    run(copy.get());
    for (const Block& block : written) protection::check_end(name, block);
  };
}

// After all checks but those of the pointers.
cudaError_t run(Stream& stream, const char* name, const Access* accesses, int count, WorkRef work) {
  if (!all_reachable(stream, name, accesses, count)) [[unlikely]] {
    return machine->settings.launch_blocking ? cudaErrorIllegalAddress : cudaSuccess;
  }
  if (faults::breaks(stream.device)) return cudaSuccess;
  if (order::is_on()) order::operation(stream, name, accesses, count);
  if (is_late()) [[unlikely]] {
    late::enqueue(stream, owned(name, stream.device, accesses, count, work));
    return cudaSuccess;
  }
  run_in_order(stream, [&] {
    const Running now(stream.device, call_place);
    work.run(work.object);
    for (int i = 0; protection::is_on() && i < count; ++i) {
      if (const Block block = protection::written_block(accesses[i])) protection::check_end(name, block);
    }
  });
  return cudaSuccess;
}

}  // namespace

cudaError_t submit_launch(const cudaLaunchConfig_t& config, const char* kernel_name, const Access* accesses, int count,
                          WorkRef work) {
  return with_stream(config.stream, kernel_name, [&](Stream& stream) -> cudaError_t {
    if (!shape_is_legal(config)) return cudaErrorInvalidConfiguration;
    if (stream.device != this_thread.device) return cudaErrorInvalidResourceHandle;
    if (faults::strikes(faults::Kind::launch, stream.device)) return cudaErrorLaunchOutOfResources;
    return run(stream, kernel_name, accesses, count, work);
  });
}

cudaError_t submit_work(cudaStream_t handle, const char* what, const Access* accesses, int count, WorkRef work,
                        bool need_current) {
  return with_stream(handle, what, [&](Stream& stream) -> cudaError_t {
    if (need_current && stream.device != this_thread.device) return cudaErrorInvalidResourceHandle;
    for (int i = 0; i < count; ++i) {
      if (accesses[i].write) checks::written_from(accesses[i].pointer);
    }
    return run(stream, what, accesses, count, work);
  });
}

int device_of(const void* pointer) {
  const std::uintptr_t arena = arena_index(pointer);
  if (arena >= arena_count) return -2;
  return arena == arena_count - 1 ? -1 : static_cast<int>(arena);
}

int stream_device(cudaStream_t handle) {
  if (enter() != cudaSuccess) return -1;
  if (!handle || handle == cudaStreamLegacy || handle == cudaStreamPerThread) return this_thread.device;
  const bool live = machine->streams.state(handle) == HandleState::live;
  return live ? reinterpret_cast<const Stream*>(handle)->device : -1;
}

int current_device() {
  return this_thread.device;
}

cudaError_t sticky_error(int device) {
  if (const cudaError_t error = enter()) return error;
  return is_device(device) ? device_at(device).sticky.load(std::memory_order_relaxed) : cudaErrorInvalidDevice;
}

}  // namespace sim
