// SPDX-License-Identifier: Apache-2.0
// One rank's call of a collective or of one half of a transfer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "nccl.h"
#include "sim/call_place.h"

namespace sim::nccl {

enum class Kind : std::uint8_t { broadcast, reduce, all_reduce, reduce_scatter, all_gather, send, receive };

struct Operation {
  Kind kind;
  ncclDataType_t type;
  ncclRedOp_t operation;  // of the reductions
  int root;               // of broadcast and reduce; the peer of a transfer
  const void* send;
  void* receive;
  std::size_t count;  // as the caller gave it: per rank for all_gather and reduce_scatter
  cudaStream_t stream;
  SourceLine place = call_place;  // where the program made the call
};

const char* name_of(Kind kind);
bool is_transfer(Kind kind);
bool has_root(Kind kind);
bool has_reduction(Kind kind);

/// "Reduce of 5 float32, sum, root 0, stream 0x55…, called at train.cpp:40"
std::string describe(const Operation& operation);

/// What all ranks must agree on.
bool agree(const Operation& a, const Operation& b);

}  // namespace sim::nccl
