// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the collectives: buffers of all ranks combined element by element, always in rank order.
#pragma once

#include <cstddef>
#include <span>

#include "nccl.h"

namespace sim::nccl {

std::size_t size_bytes(ncclDataType_t type);
/// False for the half and 8-bit floating-point types, which can be moved only.
bool can_reduce(ncclDataType_t type);

/// y[i] = x[0][i] op x[1][i] op …, then the same bytes in every further target. Reads each input once and writes each
/// target once, piece by piece; a target may be one of the inputs.
void reduce(ncclDataType_t type, ncclRedOp_t operation, std::span<const void* const> inputs,
            std::span<void* const> targets, std::size_t count);

/// The bytes of `source` in every target, piece by piece, so that the source is read from memory once.
void copy_to_all(const void* source, std::span<void* const> targets, std::size_t bytes);

}  // namespace sim::nccl
