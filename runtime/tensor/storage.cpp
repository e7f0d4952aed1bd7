// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/storage.h"

#include <fmt/format.h>

#include <cstdlib>
#include <new>

#include "runtime/device/context.h"
#include "runtime/device/error.h"

namespace fanout {
namespace {

constexpr std::size_t kHostAlignment = 64;

void* allocate_host(std::size_t bytes, HostMemory kind) {
  void* pointer = nullptr;
  if (kind == HostMemory::pinned) {
    const cudaError_t code = cudaMallocHost(&pointer, bytes);
    if (code == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();  // not left for the next check to find
      throw CudaError(code, fmt::format("{} bytes of pinned host memory: out of memory (cudaErrorMemoryAllocation); a "
                                        "smaller batch needs less, and containers may have a limit of their own",
                                        bytes));
    }
    detail::check(code, "cudaMallocHost");
    return pointer;
  }
  pointer = std::aligned_alloc(kHostAlignment, (bytes + kHostAlignment - 1) / kHostAlignment * kHostAlignment);
  if (pointer == nullptr) throw std::bad_alloc();
  return pointer;
}

[[noreturn]] void throw_out_of_memory(Device device, std::size_t bytes) {
  const DeviceGuard guard(device);
  std::size_t free_bytes = 0, total_bytes = 0;
  FANOUT_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  throw CudaError(cudaErrorMemoryAllocation,
                  fmt::format("{} bytes on {}: out of memory (cudaErrorMemoryAllocation; {} of {} bytes are free); a "
                              "smaller batch or a smaller model needs less, and more devices share a batch",
                              bytes, device.name(), free_bytes, total_bytes));
}

void* allocate_device(Device device, std::size_t bytes) {
  void* pointer = nullptr;
  const cudaError_t code = cudaMallocAsync(&pointer, bytes, compute_stream(device).handle);
  if (code == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // not left for the next check to find
    throw_out_of_memory(device, bytes);
  }
  detail::check(code, "cudaMallocAsync");
  return pointer;
}

}  // namespace

Intrusive<Storage> Storage::allocate(Device device, std::size_t bytes, HostMemory host_memory) {
  void* pointer = nullptr;
  if (bytes > 0 && device.is_host()) {
    pointer = allocate_host(bytes, host_memory);
  } else if (bytes > 0) {
    pointer = allocate_device(device, bytes);
  }
  return Intrusive<Storage>(new Storage(device, pointer, bytes, host_memory, nullptr));
}

Intrusive<Storage> Storage::part(Intrusive<Storage> whole, std::size_t offset_bytes, std::size_t bytes) {
  void* pointer = static_cast<char*>(whole->pointer_) + offset_bytes;
  const Device device = whole->device_;
  return Intrusive<Storage>(new Storage(device, pointer, bytes, HostMemory::pageable, std::move(whole)));
}

Storage::~Storage() {
  if (whole_ || pointer_ == nullptr) return;
  if (!device_.is_host()) {
    detail::report_unreleased(cudaFreeAsync(pointer_, compute_stream(device_).handle), "cudaFreeAsync");
  } else if (kind_ == HostMemory::pinned) {
    detail::report_unreleased(cudaFreeHost(pointer_), "cudaFreeHost");
  } else {
    std::free(pointer_);
  }
}

}  // namespace fanout
