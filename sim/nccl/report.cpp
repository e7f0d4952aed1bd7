// SPDX-License-Identifier: Apache-2.0
// NCCL's error strings and its last warning.
#include "sim/nccl/report.h"

#include <array>
#include <mutex>
#include <sstream>
#include <utility>

#include "sim/runtime/report.h"

namespace sim::nccl {
namespace {

struct LastWarning {
  std::mutex mutex;
  std::string text;
};

LastWarning& last_warning() {
  static LastWarning& instance = *new LastWarning;
  return instance;
}

}  // namespace

void warn(std::string text) {
  LastWarning& last = last_warning();
  const std::lock_guard lock(last.mutex);
  last.text = std::move(text);
}

void warn_aloud(std::string text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) report("NCCL: %s", line.c_str());
  warn(std::move(text));
}

const char* type_name(ncclDataType_t type) {
  constexpr std::array<const char*, ncclNumTypes> kNames = {"int8",    "uint8",    "int32",      "uint32",
                                                            "int64",   "uint64",   "float16",    "float32",
                                                            "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  return kNames.at(type);
}

const char* operation_name(ncclRedOp_t operation) {
  constexpr std::array<const char*, ncclNumOps> kNames = {"sum", "prod", "max", "min", "avg"};
  return kNames.at(operation);
}

}  // namespace sim::nccl

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) {
  thread_local std::string copy;  // the warning may be replaced by another thread
  sim::nccl::LastWarning& last = sim::nccl::last_warning();
  const std::lock_guard lock(last.mutex);
  copy = last.text;
  return copy.c_str();
}
