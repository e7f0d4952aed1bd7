// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/communicator.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <thread>

#include "runtime/device/context.h"
#include "runtime/device/error.h"

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

}  // namespace

Communicator::Communicator(std::vector<Device> devices)
    : devices_(std::move(devices)), ranks_(devices_.size(), nullptr) {
  for (const Device device : devices_) (void)context(device);
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

Communicator::~Communicator() {
  for (const ncclComm_t rank : ranks_) {
    if (rank == nullptr) continue;
    if (const ncclResult_t result = ncclCommAbort(rank); result != ncclSuccess) {
      std::fprintf(stderr, "fanout: ncclCommAbort failed: %s\n", ncclGetErrorString(result));
    }
  }
}

Communicator& Communicator::of(const std::vector<Device>& devices) {
  // Not destroyed: NCCL must not be called once static destructors run.
  static auto& made = *new std::map<std::vector<Device>, std::unique_ptr<Communicator>>();
  static std::mutex lock;
  const std::lock_guard guard(lock);
  std::unique_ptr<Communicator>& place = made[devices];
  if (!place) place = std::make_unique<Communicator>(devices);
  return *place;
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

void Communicator::start_behind_compute() {
  for (const Device device : devices_) {
    DeviceContext& on = context(device);
    wait_for(on.communication().view(), on.compute());
  }
}

void Communicator::broadcast(std::span<void* const> buffers, std::size_t bytes) {
  const std::lock_guard lock(one_at_a_time_);
  start_behind_compute();
  FANOUT_CHECK(ncclGroupStart());
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const ncclResult_t result = ncclBroadcast(buffers[0], buffers[rank], bytes, ncclUint8, 0, ranks_[rank],
                                              context(devices_[rank]).communication().view().handle);
    if (result != ncclSuccess && result != ncclInProgress) break;  // GroupEnd repeats it
  }
  settle(ncclGroupEnd(), "ncclBroadcast");
}

void Communicator::reduce(std::span<const void* const> buffers, void* result, std::int64_t elements, DType dtype) {
  const std::lock_guard lock(one_at_a_time_);
  start_behind_compute();
  FANOUT_CHECK(ncclGroupStart());
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const ncclResult_t code =
        ncclReduce(buffers[rank], rank == 0 ? result : nullptr, static_cast<std::size_t>(elements), nccl_type(dtype),
                   ncclSum, 0, ranks_[rank], context(devices_[rank]).communication().view().handle);
    if (code != ncclSuccess && code != ncclInProgress) break;  // GroupEnd repeats it
  }
  settle(ncclGroupEnd(), "ncclReduce");
}

void Communicator::wait_for_collectives() {
  for (const Device device : devices_) {
    DeviceContext& on = context(device);
    wait_for(on.compute().view(), on.communication());
  }
}

}  // namespace fanout
