// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/error.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <string_view>

#include "runtime/device/device.h"

namespace fanout::detail {
namespace {

// A broken device repeats its error at every call, so each code is said once: by what is thrown, or else at exit.
std::atomic<cudaError_t> last_thrown = cudaSuccess;
struct Unsaid {
  std::atomic<cudaError_t> code = cudaSuccess;
  std::atomic<const char*> call = nullptr;
  ~Unsaid();
} unsaid;

void say_unreleased(cudaError_t code, const char* call) {
  std::fprintf(stderr, "fanout: %s failed while releasing: %s (%s)\n", call, cudaGetErrorString(code),
               cudaGetErrorName(code));
}

Unsaid::~Unsaid() {
  const cudaError_t left = code.load();
  if (left != cudaSuccess && left != last_thrown.load()) say_unreleased(left, call.load());
}

struct BrokenDevice {
  int index = -1;
  cudaError_t code = cudaSuccess;
};

// The first device in use that has an error. Asks without waiting, since what it would wait for may never end.
BrokenDevice find_broken_device() {
  BrokenDevice broken;
  int count = 0, current = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || cudaGetDevice(&current) != cudaSuccess) return broken;
  for (int index = 0; index < count && broken.index < 0; ++index) {
    if (!has_context(Device(index))) continue;
    cudaError_t code = cudaSetDevice(index);
    if (code == cudaSuccess) code = cudaStreamQuery(cudaStreamLegacy);
    if (code != cudaSuccess && code != cudaErrorNotReady) broken = {index, code};
  }
  (void)cudaSetDevice(current);
  (void)cudaGetLastError();
  return broken;
}

// "out of memory (cudaErrorMemoryAllocation)", and the device if it is one that is broken by this error.
std::string text_of(cudaError_t code, const BrokenDevice& broken) {
  return fmt::format("{} ({}){}", cudaGetErrorString(code), cudaGetErrorName(code),
                     broken.code == code ? fmt::format(" on cuda:{}", broken.index) : "");
}

std::string describe(std::string_view call, std::string_view reason, const char* file, int line) {
  int device = -1;
  const bool known = cudaGetDevice(&device) == cudaSuccess;
  return fmt::format("{} failed: {} (current device {}, at {}:{})", call, reason,
                     known ? fmt::format("cuda:{}", device) : "unknown", file, line);
}

// The CUDA error behind that of a library, where there is one.
std::string cuda_error_behind() {
  const cudaError_t last = cudaGetLastError();
  const BrokenDevice broken = find_broken_device();
  const cudaError_t code = broken.index >= 0 ? broken.code : last;
  if (code == cudaSuccess) return "";
  last_thrown.store(code);
  return ", behind it " + text_of(code, broken);
}

}  // namespace

void throw_cuda(cudaError_t code, const char* call, const char* file, int line) {
  (void)cudaGetLastError();  // not left for the next check to find
  last_thrown.store(code);
  throw CudaError(code, describe(call, text_of(code, find_broken_device()), file, line));
}

void throw_cublas(cublasStatus_t code, const char* call, const char* file, int line) {
  throw CublasError(code, describe(call,
                                   fmt::format("{} ({}{})", cublasGetStatusString(code), cublasGetStatusName(code),
                                               cuda_error_behind()),
                                   file, line));
}

void throw_nccl(ncclResult_t code, const char* call, const char* file, int line) {
  const char* text = ncclGetLastError(nullptr);
  std::string_view detail = text != nullptr ? text : "";
  detail = detail.substr(0, detail.find('\n'));  // NCCL itself has printed the rest
  if (detail.ends_with(':')) detail.remove_suffix(1);
  throw NcclError(code, describe(call,
                                 fmt::format("{}{}{}{}", ncclGetErrorString(code), detail.empty() ? "" : ": ", detail,
                                             cuda_error_behind()),
                                 file, line));
}

void report_unreleased(cudaError_t code, const char* call) noexcept {
  if (code == cudaSuccess || code == cudaErrorCudartUnloading) return;
  (void)cudaGetLastError();
  if (code == last_thrown.load()) return;
  if (find_broken_device().code != code) {
    say_unreleased(code, call);
    return;
  }
  unsaid.call.store(call);
  unsaid.code.store(code);
}

}  // namespace fanout::detail
