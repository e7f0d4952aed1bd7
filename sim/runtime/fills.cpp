// SPDX-License-Identifier: Apache-2.0
// cudaMemset and its relatives: device memory or pinned host memory.
#include <cstring>

#include "sim/device/kernel_checks.h"
#include "sim/runtime/operands.h"
#include "sim/runtime/order.h"
#include "sim/runtime/protection.h"
#include "sim/runtime/reach.h"

using namespace sim;

namespace {

cudaError_t fill(const char* call, void* target, std::size_t pitch, int value, const Extent& extent,
                 cudaStream_t handle, bool waits) {
  return with_stream(handle, call, [&](Stream& stream) -> cudaError_t {
    if (extent.empty()) return cudaSuccess;
    if (extent.width > pitch) return cudaErrorInvalidValue;
    Operand operand;
    if (const cudaError_t error = find_operand(target, extent.reach(pitch), &operand)) return error;
    if (operand.place == Operand::kPageable && !is_registered(target)) return cudaErrorInvalidValue;
    if (faults::strikes(faults::Kind::copy, stream.device)) return cudaErrorUnknown;
    if (faults::breaks(stream.device)) return cudaSuccess;
    const bool on_host = !operand.on_device();
    if (order::is_on()) {
      const std::vector<Access> written = accesses_of(target, pitch, extent, true);
      order::operation(stream, call, written.data(), static_cast<int>(written.size()));
    }
    const late::HostRange host = on_host ? late::HostRange{target, extent.reach(pitch)} : late::HostRange{};
    for (std::size_t row = 0; row < extent.height; ++row)
      checks::written(static_cast<char*>(target) + row * pitch, extent.width);
    const auto write = [target, pitch, value, extent] {
      const protection::Opened opened = protection::open_for(target);
      if (pitch == extent.width) {
        std::memset(target, value, extent.width * extent.height);
        return;
      }
      for (std::size_t row = 0; row < extent.height; ++row)
        std::memset(static_cast<char*>(target) + row * pitch, value, extent.width);
    };
    run_in_order(stream, write, host);
    if (on_host && waits) {
      wait_for(stream);
      if (order::is_on()) order::host_waited(stream);
    }
    return cudaSuccess;
  });
}

}  // namespace

cudaError_t cudaMemset(void* target, int value, std::size_t bytes) {
  return fill("cudaMemset", target, bytes, value, {bytes, 1}, cudaStreamLegacy, true);
}
cudaError_t cudaMemsetAsync(void* target, int value, std::size_t bytes, cudaStream_t stream) {
  return fill("cudaMemsetAsync", target, bytes, value, {bytes, 1}, stream, false);
}
cudaError_t cudaMemset2D(void* target, std::size_t pitch, int value, std::size_t width, std::size_t height) {
  return fill("cudaMemset2D", target, pitch, value, {width, height}, cudaStreamLegacy, true);
}
cudaError_t cudaMemset2DAsync(void* target, std::size_t pitch, int value, std::size_t width, std::size_t height,
                              cudaStream_t stream) {
  return fill("cudaMemset2DAsync", target, pitch, value, {width, height}, stream, false);
}
