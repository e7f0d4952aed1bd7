// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <thread>
#include <utility>

#include "kernels/arithmetic.h"
#include "runtime/device/context.h"
#include "runtime/device/error.h"
#include "runtime/device/links.h"
#include "runtime/device/warning.h"
#include "runtime/device/workers.h"
#include "runtime/tensor/copy.h"

namespace fanout {
namespace {

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
    case DType::i64:
      return ncclInt64;
    case DType::bf16:
      return ncclBfloat16;
    case DType::u8:
      break;
  }
  return ncclUint8;
}

struct Communicators {
  std::mutex lock;
  std::map<std::pair<std::vector<Device>, int>, std::unique_ptr<Communicator>> made;
};

// Not destroyed: NCCL must not be called once static destructors run.
Communicators& all() {
  static auto& communicators = *new Communicators;
  return communicators;
}

}  // namespace

Communicator::Communicator(std::vector<Device> devices, int channel)
    : devices_(std::move(devices)),
      channel_(channel),
      ranks_(devices_.size(), nullptr),
      by_copies_(!links_open(devices_)) {
  for (const Device device : devices_) (void)context(device).communication(channel_);
  if (channel_ == 0 && works_on_host_threads(devices_[0])) lanes_ = Workers::of_process().lanes();
  if (by_copies_) return;
  try {
    connect();
  } catch (...) {
    disconnect();
    throw;
  }
}

Communicator::~Communicator() {
  disconnect();
}

void Communicator::connect() {
  ncclUniqueId id;
  FANOUT_CHECK(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  FANOUT_CHECK(ncclGroupStart());
  for (int rank = 0; rank < world_size(); ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    const DeviceGuard guard(devices_[index]);
    const ncclResult_t result = ncclCommInitRankConfig(&ranks_[index], world_size(), id, rank, &config);
    if (result != ncclSuccess && result != ncclInProgress) {
      (void)ncclGroupEnd();
      FANOUT_CHECK(result);
    }
  }
  settle(ncclGroupEnd(), "ncclCommInitRankConfig");
}

void Communicator::disconnect() {
  for (ncclComm_t& rank : ranks_) {
    const ncclComm_t made = std::exchange(rank, nullptr);
    if (made == nullptr) continue;
    if (const ncclResult_t result = ncclCommAbort(made); result != ncclSuccess) {
      std::fprintf(stderr, "fanout: ncclCommAbort failed: %s\n", ncclGetErrorString(result));
    }
  }
}

Communicator& Communicator::of(const std::vector<Device>& devices, int channel) {
  Communicators& communicators = all();
  const std::lock_guard guard(communicators.lock);
  std::unique_ptr<Communicator>& place = communicators.made[{devices, channel}];
  if (!place) place = std::make_unique<Communicator>(devices, channel);
  return *place;
}

void Communicator::release_all() {
  Communicators& communicators = all();
  const std::lock_guard guard(communicators.lock);
  communicators.made.clear();
}

// Non-blocking communicators answer "in progress" until all ranks have agreed.
void Communicator::settle(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  if (result != ncclInProgress) detail::check(result, call);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (std::size_t rank = 0; rank < ranks_.size();) {
    ncclResult_t state = ncclSuccess;
    FANOUT_CHECK(ncclCommGetAsyncError(ranks_[rank], &state));
    if (state == ncclSuccess) {
      ++rank;
    } else if (state != ncclInProgress) {
      detail::check(state, call);
    } else if (std::chrono::steady_clock::now() > deadline) {
      throw NcclError(ncclInProgress, fmt::format("{}: rank {} of {} ({}) gave no answer for 60 s", call, rank,
                                                  ranks_.size(), devices_[rank].name()));
    } else {
      std::this_thread::yield();
    }
  }
}

void Communicator::wait_for_computation() {
  for (const Device device : devices_) {
    DeviceContext& on = context(device);
    wait_for(on.communication(channel_).view(), on.compute());
  }
}

template <class Collective, class Copies>
void Communicator::run(Behind behind, const Collective& collective, const Copies& copies) {
  const std::lock_guard lock(one_at_a_time_);
  by_copies_ = by_copies_ || !links_open(devices_);
  if (!by_copies_) {
    try {
      if (behind == Behind::computation) wait_for_computation();
      collective();
      return;
    } catch (const NcclError& error) {
      if (error.code() != ncclSystemError) throw;
      warn(fmt::format("NCCL is not used any more among {}, which exchange by copies from now on: {}", names(devices_),
                       error.what()));
      by_copies_ = true;
      disconnect();
    }
  }
  wait_for_collectives();  // copies run on the compute streams
  copies();
}

// Cuts the collective's range and calls part(communicator, begin, end), in elements, for each lane, on the lane's
// channel. False, and nothing happens, where there is one lane or too little to do.
template <class Part>
bool Communicator::run_in_lanes(Behind behind, std::size_t elements, std::size_t element_bytes, const Part& part) {
  constexpr std::size_t kLeastBytes = std::size_t{256} << 10;  // for a lane; waking one costs as much as 100 KiB
  const int lanes =
      static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(lanes_), elements * element_bytes / kLeastBytes));
  if (lanes < 2 || by_copies_ || !links_open(devices_)) return false;
  if (behind == Behind::computation) wait_for_computation();
  std::vector<Communicator*> channels{this};
  for (int lane = 1; lane < lanes; ++lane) channels.push_back(&of(devices_, lane));
  const auto order = [&](int waiter, int on) {
    for (const Device device : devices_) {
      wait_for(context(device).communication(waiter).view(), context(device).communication(on));
    }
  };
  for (int lane = 1; lane < lanes; ++lane) order(lane, 0);
  constexpr std::size_t kUnit = 64;  // elements: ranges begin where lines of a cache do
  const auto border = [&](int lane, int used) {
    const std::size_t units = elements / kUnit * static_cast<std::size_t>(lane) / static_cast<std::size_t>(used);
    return lane == used ? elements : units * kUnit;
  };
  Workers::of_process().run(lanes, [&](int lane, int used) {
    part(*channels[static_cast<std::size_t>(lane)], border(lane, used), border(lane + 1, used));
  });
  for (int lane = 1; lane < lanes; ++lane) order(0, lane);
  return true;
}

void Communicator::broadcast(std::span<void* const> buffers, std::size_t bytes, Behind behind) {
  const auto part = [&](Communicator& channel, std::size_t begin, std::size_t end) {
    void* places[kMaxDevices];
    for (std::size_t rank = 0; rank < buffers.size(); ++rank) places[rank] = static_cast<char*>(buffers[rank]) + begin;
    channel.broadcast_range({places, buffers.size()}, end - begin, Behind::collectives);
  };
  if (!run_in_lanes(behind, bytes, 1, part)) broadcast_range(buffers, bytes, behind);
}

void Communicator::broadcast_range(std::span<void* const> buffers, std::size_t bytes, Behind behind) {
  run(
      behind, [&] { broadcast_by_nccl(buffers, bytes); },
      [&] {
        for (std::size_t rank = 1; rank < devices_.size(); ++rank) {
          copy_bytes(buffers[rank], devices_[rank], buffers[0], devices_[0], bytes);
        }
      });
}

void Communicator::reduce(std::span<const void* const> buffers, void* result, std::int64_t elements, DType dtype,
                          Behind behind) {
  const std::size_t size = size_of(dtype);
  const auto part = [&](Communicator& channel, std::size_t begin, std::size_t end) {
    const void* places[kMaxDevices];
    for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
      places[rank] = static_cast<const char*>(buffers[rank]) + begin * size;
    }
    channel.reduce_range({places, buffers.size()}, static_cast<char*>(result) + begin * size,
                         static_cast<std::int64_t>(end - begin), dtype, Behind::collectives);
  };
  if (!run_in_lanes(behind, static_cast<std::size_t>(elements), size, part)) {
    reduce_range(buffers, result, elements, dtype, behind);
  }
}

void Communicator::reduce_range(std::span<const void* const> buffers, void* result, std::int64_t elements, DType dtype,
                                Behind behind) {
  run(
      behind, [&] { reduce_by_nccl(buffers, result, elements, dtype); },
      [&] { reduce_by_copies(buffers, result, elements, dtype); });
}

void Communicator::all_reduce(std::span<const void* const> buffers, std::span<void* const> results,
                              std::int64_t elements, DType dtype, Behind behind) {
  const std::size_t size = size_of(dtype);
  const auto part = [&](Communicator& channel, std::size_t begin, std::size_t end) {
    const void* sources[kMaxDevices];
    void* targets[kMaxDevices];
    for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
      sources[rank] = static_cast<const char*>(buffers[rank]) + begin * size;
      targets[rank] = static_cast<char*>(results[rank]) + begin * size;
    }
    channel.all_reduce_range({sources, buffers.size()}, {targets, results.size()},
                             static_cast<std::int64_t>(end - begin), dtype, Behind::collectives);
  };
  if (!run_in_lanes(behind, static_cast<std::size_t>(elements), size, part)) {
    all_reduce_range(buffers, results, elements, dtype, behind);
  }
}

void Communicator::all_reduce_range(std::span<const void* const> buffers, std::span<void* const> results,
                                    std::int64_t elements, DType dtype, Behind behind) {
  run(
      behind, [&] { all_reduce_by_nccl(buffers, results, elements, dtype); },
      [&] {
        reduce_by_copies(buffers, results[0], elements, dtype);
        const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(dtype);
        for (std::size_t rank = 1; rank < devices_.size(); ++rank) {
          copy_bytes(results[rank], devices_[rank], results[0], devices_[0], bytes);
        }
      });
}

void Communicator::broadcast_by_nccl(std::span<void* const> buffers, std::size_t bytes) {
  FANOUT_CHECK(ncclGroupStart());
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const ncclResult_t result = ncclBroadcast(buffers[0], buffers[rank], bytes, ncclUint8, 0, ranks_[rank],
                                              context(devices_[rank]).communication(channel_).view().handle);
    if (result != ncclSuccess && result != ncclInProgress) break;  // GroupEnd repeats it
  }
  settle(ncclGroupEnd(), "ncclBroadcast");
}

void Communicator::reduce_by_nccl(std::span<const void* const> buffers, void* result, std::int64_t elements,
                                  DType dtype) {
  FANOUT_CHECK(ncclGroupStart());
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const ncclResult_t code =
        ncclReduce(buffers[rank], rank == 0 ? result : nullptr, static_cast<std::size_t>(elements), nccl_type(dtype),
                   ncclSum, 0, ranks_[rank], context(devices_[rank]).communication(channel_).view().handle);
    if (code != ncclSuccess && code != ncclInProgress) break;  // GroupEnd repeats it
  }
  settle(ncclGroupEnd(), "ncclReduce");
}

void Communicator::all_reduce_by_nccl(std::span<const void* const> buffers, std::span<void* const> results,
                                      std::int64_t elements, DType dtype) {
  FANOUT_CHECK(ncclGroupStart());
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const ncclResult_t code =
        ncclAllReduce(buffers[rank], results[rank], static_cast<std::size_t>(elements), nccl_type(dtype), ncclSum,
                      ranks_[rank], context(devices_[rank]).communication(channel_).view().handle);
    if (code != ncclSuccess && code != ncclInProgress) break;  // GroupEnd repeats it
  }
  settle(ncclGroupEnd(), "ncclAllReduce");
}

void Communicator::reduce_by_copies(std::span<const void* const> buffers, void* result, std::int64_t elements,
                                    DType dtype) {
  const Device root = devices_[0];
  const Tensor term = empty({elements}, dtype, root);
  if (result != buffers[0]) copy_bytes(result, root, buffers[0], root, term.bytes());
  for (std::size_t rank = 1; rank < devices_.size(); ++rank) {
    copy_bytes(term.raw_data(), root, buffers[rank], devices_[rank], term.bytes());
    const DeviceGuard guard(root);
    dispatch_any(dtype, [&]<class Tag>(Tag) {
      using T = typename Tag::type;
      FANOUT_CHECK(kernels::add(compute_stream(root).handle, static_cast<T*>(result), static_cast<const T*>(result),
                                static_cast<const T*>(term.data<T>()), elements));
    });
  }
}

void Communicator::wait_for_collectives() {
  for (const Device device : devices_) {
    DeviceContext& on = context(device);
    wait_for(on.compute().view(), on.communication(channel_));
  }
}

StreamView Communicator::root_stream() const {
  DeviceContext& root = context(devices_[0]);
  return by_copies_ ? root.compute().view() : root.communication(channel_).view();
}

}  // namespace fanout
