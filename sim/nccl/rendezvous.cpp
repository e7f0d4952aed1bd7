// SPDX-License-Identifier: Apache-2.0
// The table of communicators that are forming, by their id.
#include "sim/nccl/rendezvous.h"

#include <map>
#include <string>

#include "sim/nccl/report.h"
#include "sim/runtime/handle_table.h"
#include "sim/runtime/objects.h"
#include "sim/runtime/report.h"

namespace sim::nccl {
namespace {

HandleTable<ncclComm, 1 << 14>& comms() {
  static auto& table = *new HandleTable<ncclComm, 1 << 14>;
  return table;
}

/// An id serves one communicator: it is open from the first rank's arrival until the last one's, and then used up.
struct Rendezvous {
  std::mutex mutex;
  std::uint64_t last_id = 0;
  std::map<std::uint64_t, std::shared_ptr<Clique>> open;
};

Rendezvous& rendezvous() {
  static auto& instance = *new Rendezvous;
  return instance;
}

void take_back(const Arrival& arrival) {
  end_comm(arrival.comm);
  *arrival.place = nullptr;
}

}  // namespace

ncclComm_t make_comm(int rank, int device, bool is_blocking) {
  ncclComm_t comm = comms().create();
  if (comm == nullptr) return nullptr;
  comm->rank = rank;
  comm->device = device;
  comm->is_blocking = is_blocking;
  objects::made(objects::Kind::communicator, comm, device);
  return comm;
}

void end_comm(ncclComm_t comm) {
  if (!comms().destroy(comm)) return;
  comm->clique.reset();
  objects::ended(comm);
}

bool is_comm(ncclComm_t comm, const char* call) {
  if (comm != nullptr) [[likely]] {
    const HandleState state = comms().state(comm);
    if (state == HandleState::live) [[likely]]
      return true;
    warn_aloud(std::string(call) +
               (state == HandleState::destroyed
                    ? " at " + place_text(call_place) + " : the communicator was destroyed or aborted before (" +
                          objects::history(comm) + ")"
                    : " : comm argument is no communicator"));
    return false;
  }
  warn(std::string(call) + " : comm argument is NULL");
  return false;
}

std::uint64_t make_unique_id() {
  const std::lock_guard lock(rendezvous().mutex);
  const std::uint64_t id = ++rendezvous().last_id;
  rendezvous().open[id] = nullptr;
  return id;
}

void meet(const Arrival& arrival) {
  const std::lock_guard lock(rendezvous().mutex);
  const auto place = rendezvous().open.find(arrival.id);
  if (place == rendezvous().open.end()) {
    warn_aloud("rank " + std::to_string(arrival.comm->rank) +
               " joins with an ncclUniqueId that was never made here, or whose communicator has already formed");
    return;  // without a clique: `finish` sees it
  }
  if (place->second == nullptr) place->second = std::make_shared<Clique>(arrival.ranks);
  const std::shared_ptr<Clique> clique = place->second;
  arrival.comm->clique = clique;
  clique->join(arrival.ranks, arrival.comm->rank, arrival.comm->device, arrival.comm->made_at);
  if (clique->is_ready()) rendezvous().open.erase(place);
}

ncclResult_t finish(const Arrival& arrival) {
  const ncclComm_t comm = arrival.comm;
  const std::shared_ptr<Clique> clique = comm->clique;  // the communicator may be aborted meanwhile
  if (clique != nullptr && !comm->is_blocking) return ncclInProgress;
  const ncclResult_t result = clique == nullptr ? ncclSystemError : clique->wait_until_ready();
  if (result == ncclSuccess) {
    comm->is_initialising = false;
  } else {
    take_back(arrival);
  }
  return result;
}

void discard(const Arrival& arrival) {
  take_back(arrival);
}

}  // namespace sim::nccl
