// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/context.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>

#include "runtime/device/error.h"

namespace fanout {
namespace {

// Not destroyed: CUDA calls are undefined once static destructors run, and the driver releases all of it at exit.
std::array<std::atomic<DeviceContext*>, kMaxDevices> contexts;
std::mutex creation;

DeviceContext& create(Device device) {
  const std::lock_guard lock(creation);
  require_device(device);
  if (device.index() >= kMaxDevices) throw InvalidArgument("fanout works with the first 16 devices of a process");
  std::atomic<DeviceContext*>& place = contexts[static_cast<std::size_t>(device.index())];
  if (DeviceContext* made = place.load(std::memory_order_acquire)) return *made;
  auto* made = new DeviceContext(device);
  place.store(made, std::memory_order_release);
  return *made;
}

void keep_pool_memory(Device device) {
  cudaMemPool_t pool = nullptr;
  FANOUT_CHECK(cudaDeviceGetDefaultMemPool(&pool, device.index()));
  std::uint64_t keep_all = std::numeric_limits<std::uint64_t>::max();
  FANOUT_CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_all));
}

}  // namespace

DeviceContext::DeviceContext(Device device) : compute_(device) {
  (void)communication();
  const DeviceGuard guard(device);
  keep_pool_memory(device);
  FANOUT_CHECK(cublasCreate(&blas_));
  FANOUT_CHECK(cublasSetStream(blas_, compute_.view().handle));
  // Sums of bf16 products stay in float also where cuBLAS splits them.
  FANOUT_CHECK(cublasSetMathMode(blas_, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
}

DeviceContext::~DeviceContext() {
  const Device device = compute_.view().device;
  detail::report_unreleased(cudaSetDevice(device.index()), "cudaSetDevice");
  for (const auto& stream : communication_) {
    if (stream) detail::report_unreleased(cudaStreamSynchronize(stream->view().handle), "cudaStreamSynchronize");
  }
  detail::report_unreleased(cudaStreamSynchronize(compute_.view().handle), "cudaStreamSynchronize");
  (void)cublasDestroy(blas_);  // fails only with its device, which has been said
  cudaMemPool_t pool = nullptr;
  detail::report_unreleased(cudaDeviceGetDefaultMemPool(&pool, device.index()), "cudaDeviceGetDefaultMemPool");
  if (pool != nullptr) detail::report_unreleased(cudaMemPoolTrimTo(pool, 0), "cudaMemPoolTrimTo");
}

Stream& DeviceContext::communication(int channel) {
  std::unique_ptr<Stream>& stream = communication_[static_cast<std::size_t>(channel)];
  if (!stream) stream = std::make_unique<Stream>(compute_.view().device);
  return *stream;
}

void release_devices() {
  const std::lock_guard lock(creation);
  for (std::atomic<DeviceContext*>& place : contexts) delete place.exchange(nullptr, std::memory_order_acq_rel);
}

DeviceContext& context(Device device) {
  const auto index = static_cast<unsigned>(device.index());
  if (index < contexts.size()) {
    if (DeviceContext* made = contexts[index].load(std::memory_order_acquire)) [[likely]]
      return *made;
  }
  return create(device);
}

void synchronize(Device device) {
  DeviceContext& of = context(device);
  of.compute().view().synchronize();
  for (const auto& stream : of.communication_) {
    if (stream) stream->view().synchronize();
  }
}

}  // namespace fanout
