// SPDX-License-Identifier: Apache-2.0
// NCCL's calls that make, ask and end communicators.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "sim/nccl/rendezvous.h"
#include "sim/nccl/report.h"
#include "sim/runtime/report.h"
#include "sim/submit.h"

namespace sim::nccl {
namespace {

constexpr std::uint64_t kIdMark = 0x6c63636e2d6d6973;  // the first bytes of an id made here
constexpr unsigned kConfigMagic = 0xcafebeef;

bool has_device() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess && sticky_error(current_device()) == cudaSuccess) return true;
  warn("Cuda failure: no usable device");
  return false;
}

ncclResult_t refuse(const std::string& text) {
  warn(text);
  return ncclInvalidArgument;
}

/// NULL, or still forming: the answer of the calls that ask something of a communicator.
ncclResult_t check_formed(ncclComm_t comm, const char* call) {
  if (!is_comm(comm, call)) return ncclInvalidArgument;
  if (comm->is_initialising) return refuse(std::string(call) + " : the communicator is still in progress");
  return ncclSuccess;
}

template <class T>
ncclResult_t answer(ncclComm_t comm, const char* call, const char* name, T* out, T (*read)(const ncclComm&)) {
  if (out == nullptr && comm != nullptr) return refuse(std::string(call) + " : " + name + " argument is NULL");
  if (const ncclResult_t error = check_formed(comm, call); error != ncclSuccess) return error;
  *out = read(*comm);
  return ncclSuccess;
}

bool is_set(int value) {
  return value != NCCL_CONFIG_UNDEF_INT;
}

const char* fault_of(const ncclConfig_t& config) {
  const auto is_positive = [](int value) { return !is_set(value) || value > 0; };
  const auto is_flag = [](int value) { return !is_set(value) || value == 0 || value == 1; };
  if (config.magic != kConfigMagic) return "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER";
  if (!is_flag(config.blocking)) return "Invalid config blocking attribute value";
  if (is_set(config.cgaClusterSize) && config.cgaClusterSize < 0)
    return "Invalid config cgaClusterSize attribute value";
  const bool both_ctas = is_set(config.minCTAs) && is_set(config.maxCTAs);
  if (!is_positive(config.minCTAs) || !is_positive(config.maxCTAs) || (both_ctas && config.minCTAs > config.maxCTAs)) {
    return "Invalid config min/max channels attribute value";
  }
  if (!is_flag(config.splitShare)) return "Invalid config splitShare attribute value";
  if (!is_flag(config.shrinkShare)) return "Invalid config shrinkShare attribute value";
  return nullptr;
}

bool wants_blocking(const ncclConfig_t* config) {
  if (const char* text = std::getenv("NCCL_COMM_BLOCKING")) return std::strcmp(text, "0") != 0;
  return config == nullptr || config->blocking != 0;  // not set: blocking
}

ncclResult_t init_rank(ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank, const ncclConfig_t* config) {
  if (!has_device()) return ncclUnhandledCudaError;
  if (comm == nullptr) return refuse("CommInitRank : newcomm argument is NULL");
  if (config != nullptr) {
    if (const char* fault = fault_of(*config)) return refuse(fault);
  }
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    return refuse("Invalid rank requested : " + std::to_string(rank) + '/' + std::to_string(ranks));
  }
  std::uint64_t words[2];
  std::memcpy(words, id.internal, sizeof words);
  const ncclComm_t made = make_comm(rank, current_device(), wants_blocking(config));
  if (made == nullptr) return ncclSystemError;
  *comm = made;
  return enqueue(Arrival{made, comm, words[0] == kIdMark ? words[1] : 0, ranks});
}

ncclResult_t check_device_list(const int* devices, int count) {
  int visible = 0;
  if (cudaGetDeviceCount(&visible) != cudaSuccess) return ncclUnhandledCudaError;
  if (devices == nullptr) return count > visible ? ncclUnhandledCudaError : ncclSuccess;
  const std::vector<int> list(devices, devices + count);
  for (const int device : list) {
    if (device < 0 || device >= visible) return refuse("Invalid device " + std::to_string(device));
  }
  const auto is_repeated = [&](int device) { return std::count(list.begin(), list.end(), device) > 1; };
  const auto repeated = std::find_if(list.begin(), list.end(), is_repeated);
  if (repeated == list.end()) return ncclSuccess;
  warn_aloud("Duplicate GPU detected : the list of CommInitAll at " + place_text(call_place) + " names device " +
             std::to_string(*repeated) + " more than once");
  return ncclInvalidUsage;
}

ncclUniqueId make_id() {
  ncclUniqueId id = {};
  const std::uint64_t words[2] = {kIdMark, make_unique_id()};
  std::memcpy(id.internal, words, sizeof words);
  return id;
}

/// An operation of a non-blocking communicator that has not been matched yet counts as in progress.
bool is_busy(ncclComm_t comm) {
  return comm->is_initialising || (!comm->is_blocking && comm->clique->poll(comm->rank) == ncclInProgress);
}

ncclResult_t async_error(ncclComm_t comm) {
  if (!comm->is_initialising) return comm->clique->poll(comm->rank);
  if (comm->clique == nullptr) return ncclInProgress;  // its group is still open
  const ncclResult_t state = comm->clique->poll_ready();
  if (state == ncclSuccess) comm->is_initialising = false;
  return state;
}

}  // namespace
}  // namespace sim::nccl

using namespace sim::nccl;

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** pointer, size_t size) {
  return pointer != nullptr && cudaMalloc(pointer, size) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void* pointer) {
  return pointer != nullptr && cudaFree(pointer) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return refuse("GetUniqueId : out argument is NULL");
  *id = make_id();
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return note(init_rank(comm, nranks, commId, rank, nullptr));
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config) {
  return note(init_rank(comm, nranks, commId, rank, config));
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int ndev, const int* devlist) {
  if (!has_device()) return note(ncclUnhandledCudaError);
  if (comms == nullptr || ndev < 0) return note(refuse("Invalid arguments of CommInitAll"));
  if (const ncclResult_t error = check_device_list(devlist, ndev); error != ncclSuccess) return note(error);
  const int caller_device = sim::current_device();
  const ncclUniqueId id = make_id();
  (void)ncclGroupStart();
  for (int rank = 0; rank < ndev; ++rank) {
    (void)cudaSetDevice(devlist != nullptr ? devlist[rank] : rank);
    (void)note(init_rank(&comms[rank], ndev, id, rank, nullptr));
  }
  (void)cudaSetDevice(caller_device);
  return ncclGroupEnd();
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  if (const ncclResult_t error = check_formed(comm, "CommFinalize"); error != ncclSuccess) return note(error);
  if (is_busy(comm) || comm->is_finalized.exchange(true)) {
    return note(refuse("CommFinalize : the communicator is in progress or already finalized"));
  }
  comm->clique->finalize(comm->rank);
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  if (!is_comm(comm, "CommDestroy")) return note(ncclInvalidArgument);
  if (is_busy(comm)) return note(refuse("CommDestroy : the communicator is still in progress"));
  comm->clique->leave(comm->rank, Presence::destroyed);
  end_comm(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  if (!is_comm(comm, "CommAbort")) return note(ncclInvalidArgument);
  if (comm->clique != nullptr) comm->clique->leave(comm->rank, Presence::aborted);
  end_comm(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (!is_comm(comm, "ncclGetAsyncError")) return ncclInvalidArgument;
  if (error == nullptr) return refuse("ncclGetAsyncError : asyncError argument is NULL");
  *error = async_error(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return answer<int>(comm, "CommCount", "count", count, [](const ncclComm& c) { return c.clique->size(); });
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return answer<int>(comm, "CommCuDevice", "device", device, [](const ncclComm& c) { return c.device; });
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return answer<int>(comm, "CommUserRank", "rank", rank, [](const ncclComm& c) { return c.rank; });
}
