// SPDX-License-Identifier: Apache-2.0
// Texts: the last warning, as NCCL keeps it, and names of types and operations.
#pragma once

#include <string>

#include "nccl.h"

namespace sim::nccl {

/// Keeps `text` for ncclGetLastError.
void warn(std::string text);
/// Keeps `text` and prints it on stderr: for what NCCL would hang on or corrupt memory with.
void warn_aloud(std::string text);

const char* type_name(ncclDataType_t type);
const char* operation_name(ncclRedOp_t operation);

}  // namespace sim::nccl
