// SPDX-License-Identifier: Apache-2.0
// Moves and combines the data of a matched operation, in the stream order of every rank that takes part.
#pragma once

#include <span>

#include "sim/nccl/operation.h"

namespace sim::nccl {

/// One rank's part: its call and the device that it lives on.
struct Part {
  Operation operation;
  int device;
};

/// Parts in rank order, which agree. ncclSuccess, or the error that ends the communicator (said on stderr).
ncclResult_t execute_collective(std::span<const Part> parts);
ncclResult_t execute_transfer(const Part& source, const Part& target);

}  // namespace sim::nccl
