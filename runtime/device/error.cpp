// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/error.h"

#include <fmt/format.h>

#include <cstdio>
#include <string_view>

namespace fanout::detail {
namespace {

std::string describe(std::string_view call, std::string_view reason, std::source_location place) {
  int device = -1;
  const bool known = cudaGetDevice(&device) == cudaSuccess;
  return fmt::format("{} failed: {} (current device {}, at {}:{})", call, reason,
                     known ? fmt::format("cuda:{}", device) : "unknown", place.file_name(), place.line());
}

}  // namespace

void throw_cuda(cudaError_t code, const char* call, std::source_location place) {
  (void)cudaGetLastError();  // not left for the next check to find
  throw CudaError(code,
                  describe(call, fmt::format("{} ({})", cudaGetErrorString(code), cudaGetErrorName(code)), place));
}

void throw_cublas(cublasStatus_t code, const char* call, std::source_location place) {
  throw CublasError(
      code, describe(call, fmt::format("{} ({})", cublasGetStatusString(code), cublasGetStatusName(code)), place));
}

void throw_nccl(ncclResult_t code, const char* call, std::source_location place) {
  const char* detail = ncclGetLastError(nullptr);
  const bool more = detail != nullptr && *detail != '\0';
  throw NcclError(
      code,
      describe(call, fmt::format("{}{}{}", ncclGetErrorString(code), more ? ": " : "", more ? detail : ""), place));
}

void report_unreleased(cudaError_t code, const char* call) noexcept {
  if (code == cudaSuccess || code == cudaErrorCudartUnloading) return;
  std::fprintf(stderr, "fanout: %s failed while releasing: %s\n", call, cudaGetErrorString(code));
}

}  // namespace fanout::detail
