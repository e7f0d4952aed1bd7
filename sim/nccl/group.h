// SPDX-License-Identifier: Apache-2.0
// Groups: calls between ncclGroupStart and ncclGroupEnd of one thread wait for the outermost End.
#pragma once

#include "sim/nccl/clique.h"

namespace sim::nccl {

/// A rank that wants to join a communicator, and where its handle is kept by the program.
struct Arrival {
  ncclComm_t comm;
  ncclComm_t* place;
  std::uint64_t id;
  int ranks;
};

/// Remembers `error` for the outermost End of the group that is open in this thread, if one is; returns it.
ncclResult_t note(ncclResult_t error);

/// Now, or at the outermost End.
ncclResult_t enqueue(ncclComm_t comm, const Operation& operation);
ncclResult_t enqueue(const Arrival& arrival);

/// At once, also inside a group.
ncclResult_t issue_now(ncclComm_t comm, const Operation& operation);

}  // namespace sim::nccl
