// SPDX-License-Identifier: Apache-2.0
// Communicator handles, and where the ranks that hold the same ncclUniqueId find each other.
#pragma once

#include "sim/nccl/group.h"

namespace sim::nccl {

/// A handle that is still initialising; null when there are too many.
ncclComm_t make_comm(int rank, int device, bool is_blocking);
/// The handle is told apart from garbage, and rests before it is used again.
void end_comm(ncclComm_t comm);
/// False, with the warning that `call` leaves, for NULL, garbage, and a handle that was destroyed or aborted.
bool is_comm(ncclComm_t comm, const char* call);

std::uint64_t make_unique_id();

/// The arrival's rank is counted in the communicator of its id.
void meet(const Arrival& arrival);
/// Waits for the communicator to form, if it is a blocking one. When it did not form, the handle is taken back.
ncclResult_t finish(const Arrival& arrival);
/// Takes the handle back before it has met anybody.
void discard(const Arrival& arrival);

}  // namespace sim::nccl
