// SPDX-License-Identifier: Apache-2.0
// cudaFunc* and occupancy, for kernels that are host functions: every kernel counts as using 32 registers.
#include <algorithm>
#include <map>
#include <mutex>

#include "sim/runtime/function_limits.h"
#include "sim/runtime/machine.h"

namespace sim {
namespace {

constexpr int kRegistersPerThread = 32;

std::atomic<std::size_t> largest_opt_in{kSharedBytes};
std::mutex opt_ins_mutex;

// Leaked, so that it outlives every static object.
std::map<const void*, int>& opt_ins() {
  static auto* map = new std::map<const void*, int>;
  return *map;
}

int opted_in(const void* function) {
  std::lock_guard guard(opt_ins_mutex);
  const auto found = opt_ins().find(function);
  return found == opt_ins().end() ? static_cast<int>(kSharedBytes) : found->second;
}

int blocks_per_sm(const void* function, int block_size, std::size_t shared_bytes) {
  if (block_size > static_cast<int>(kMaxThreads) || shared_bytes > static_cast<std::size_t>(opted_in(function)))
    return 0;
  const int warps = (block_size + 31) / 32;
  const int by_threads = kMaxThreadsPerSm / (warps * 32);
  const int by_registers = kRegistersPerSm / (warps * 32 * kRegistersPerThread);
  const int by_shared = static_cast<int>(kSharedPerSmBytes / (shared_bytes + kSharedReservedBytes));
  return std::min({by_threads, by_registers, by_shared, kMaxBlocksPerSm});
}

}  // namespace

std::size_t dynamic_shared_limit() {
  return largest_opt_in.load(std::memory_order_relaxed);
}

cudaError_t max_potential_block_size(int* min_grid_size, int* block_size, const void* kernel,
                                     std::size_t dynamic_shared_bytes, int block_size_limit) {
  return device_api([&](Device&) -> cudaError_t {
    if (!kernel) return cudaErrorInvalidDeviceFunction;
    if (!min_grid_size || !block_size) return cudaErrorInvalidValue;
    const int limit = block_size_limit > 0 ? std::min<int>(block_size_limit, kMaxThreads) : kMaxThreads;
    int best = 0, best_threads = 0;
    for (int size = (limit + 31) / 32 * 32; size > 0; size -= 32) {
      const int threads = std::min(size, limit) * blocks_per_sm(kernel, std::min(size, limit), dynamic_shared_bytes);
      if (threads <= best_threads) continue;
      best = std::min(size, limit);
      best_threads = threads;
    }
    if (best == 0) return cudaErrorInvalidValue;
    *block_size = best;
    *min_grid_size = best_threads / best * kSmCount;
    return cudaSuccess;
  });
}

}  // namespace sim

using namespace sim;

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return device_api([&](Device&) -> cudaError_t {
    if (!function) return cudaErrorInvalidDeviceFunction;
    if (!attributes) return cudaErrorInvalidValue;
    *attributes = {};
    attributes->maxThreadsPerBlock = kMaxThreads;
    attributes->numRegs = kRegistersPerThread;
    attributes->ptxVersion = attributes->binaryVersion = 90;
    attributes->maxDynamicSharedSizeBytes = opted_in(function);
    attributes->preferredShmemCarveout = -1;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return device_api([&](Device&) -> cudaError_t {
    if (!function) return cudaErrorInvalidDeviceFunction;
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout)
      return value >= -1 && value <= 100 ? cudaSuccess : cudaErrorInvalidValue;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaErrorInvalidValue;
    if (value < 0 || static_cast<std::size_t>(value) > kSharedOptInBytes) return cudaErrorInvalidValue;
    std::lock_guard guard(opt_ins_mutex);
    opt_ins()[function] = value;
    const auto bytes = static_cast<std::size_t>(value);
    if (bytes > largest_opt_in.load(std::memory_order_relaxed)) largest_opt_in.store(bytes, std::memory_order_relaxed);
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int block_size,
                                                          std::size_t dynamic_shared_bytes) {
  return device_api([&](Device&) -> cudaError_t {
    if (!function) return cudaErrorInvalidDeviceFunction;
    if (!blocks || block_size <= 0) return cudaErrorInvalidValue;
    *blocks = blocks_per_sm(function, block_size, dynamic_shared_bytes);
    return cudaSuccess;
  });
}
