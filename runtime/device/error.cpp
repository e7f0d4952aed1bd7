// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/error.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <string_view>

namespace fanout::detail {
namespace {

std::atomic<cudaError_t> last_thrown = cudaSuccess;

std::string describe(std::string_view call, std::string_view reason, std::source_location place) {
  int device = -1;
  const bool known = cudaGetDevice(&device) == cudaSuccess;
  return fmt::format("{} failed: {} (current device {}, at {}:{})", call, reason,
                     known ? fmt::format("cuda:{}", device) : "unknown", place.file_name(), place.line());
}

// The CUDA error behind that of a library, where there is one: it is the one that later calls repeat.
std::string cuda_error_behind() {
  const cudaError_t code = cudaGetLastError();
  if (code == cudaSuccess) return "";
  last_thrown.store(code, std::memory_order_relaxed);
  return fmt::format(", behind it {} ({})", cudaGetErrorString(code), cudaGetErrorName(code));
}

}  // namespace

void throw_cuda(cudaError_t code, const char* call, std::source_location place) {
  (void)cudaGetLastError();  // not left for the next check to find
  last_thrown.store(code, std::memory_order_relaxed);
  throw CudaError(code,
                  describe(call, fmt::format("{} ({})", cudaGetErrorString(code), cudaGetErrorName(code)), place));
}

void throw_cublas(cublasStatus_t code, const char* call, std::source_location place) {
  throw CublasError(code, describe(call,
                                   fmt::format("{} ({}{})", cublasGetStatusString(code), cublasGetStatusName(code),
                                               cuda_error_behind()),
                                   place));
}

void throw_nccl(ncclResult_t code, const char* call, std::source_location place) {
  const char* text = ncclGetLastError(nullptr);
  std::string_view detail = text != nullptr ? text : "";
  detail = detail.substr(0, detail.find('\n'));  // NCCL itself has printed the rest
  if (detail.ends_with(':')) detail.remove_suffix(1);
  throw NcclError(code, describe(call,
                                 fmt::format("{}{}{}{}", ncclGetErrorString(code), detail.empty() ? "" : ": ", detail,
                                             cuda_error_behind()),
                                 place));
}

void report_unreleased(cudaError_t code, const char* call) noexcept {
  if (code == cudaSuccess || code == cudaErrorCudartUnloading) return;
  (void)cudaGetLastError();
  if (code == last_thrown.load(std::memory_order_relaxed)) return;
  std::fprintf(stderr, "fanout: %s failed while releasing: %s\n", call, cudaGetErrorString(code));
}

}  // namespace fanout::detail
