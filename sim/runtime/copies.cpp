// SPDX-License-Identifier: Apache-2.0
// cudaMemcpy and its relatives.
#include <cstring>
#include <memory>
#include <vector>

#include "sim/device/kernel_checks.h"
#include "sim/runtime/operands.h"
#include "sim/runtime/order.h"
#include "sim/runtime/protection.h"
#include "sim/runtime/report.h"

using namespace sim;

namespace {

struct Side {
  const void* pointer;
  std::size_t pitch;
};

void copy_rows(const Side& target, const Side& source, const Extent& extent) {
  auto* to = static_cast<char*>(const_cast<void*>(target.pointer));
  const auto* from = static_cast<const char*>(source.pointer);
  const protection::Opened opened = protection::open_for(target.pointer, source.pointer);
  for (std::size_t row = 0; row < extent.height; ++row)
    checks::copied(to + row * target.pitch, from + row * source.pitch, extent.width);
  if (target.pitch == extent.width && source.pitch == extent.width) {
    std::memcpy(to, from, extent.width * extent.height);
    return;
  }
  for (std::size_t row = 0; row < extent.height; ++row)
    std::memcpy(to + row * target.pitch, from + row * source.pitch, extent.width);
}

// Only plain ranges: the rows of two rectangles may lie between each other.
void stop_if_overlapping(const char* call, const Side& target, const Side& source, const Extent& extent,
                         const Stream& stream) {
  if (extent.height != 1) return;
  const auto to = reinterpret_cast<std::uintptr_t>(target.pointer);
  const auto from = reinterpret_cast<std::uintptr_t>(source.pointer);
  const std::uintptr_t distance = to > from ? to - from : from - to;
  if (distance < extent.width)
    stop("%s(target %p, source %p, %zu bytes) on current device cuda:%d, stream %p of cuda:%d: the areas overlap", call,
         target.pointer, source.pointer, extent.width, this_thread.device, static_cast<const void*>(&stream),
         stream.device);
}

// The operands of a copy after their common checks.
cudaError_t find_operands(const Side& target, const Side& source, const Extent& extent, Operand* to, Operand* from) {
  if (extent.width > target.pitch || extent.width > source.pitch) return cudaErrorInvalidPitchValue;
  if (const cudaError_t error = find_operand(target.pointer, extent.reach(target.pitch), to)) return error;
  return find_operand(source.pointer, extent.reach(source.pitch), from);
}

late::HostRange host_range(const Operand& operand, const Side& side, const Extent& extent) {
  return operand.on_device() ? late::HostRange{} : late::HostRange{side.pointer, extent.reach(side.pitch)};
}

// The rows of a host rectangle, one behind the other.
std::shared_ptr<std::vector<char>> staged(const Side& source, const Extent& extent) {
  auto bytes = std::make_shared<std::vector<char>>(extent.width * extent.height);
  copy_rows({bytes->data(), extent.width}, source, extent);
  return bytes;
}

// The bytes of the target that the copy will write are not there yet, and look like it.
void spoil(const Side& target, const Extent& extent) {
  for (std::size_t row = 0; row < extent.height; ++row)
    std::memset(static_cast<char*>(const_cast<void*>(target.pointer)) + row * target.pitch, 0xFF, extent.width);
}

// Whether the host may use what the copy has written, or write over what it has read, once the call returns.
bool is_done_at_return(const Operand& to, const Operand& from, bool synchronous) {
  const bool on_host = !to.on_device() && !from.on_device(), on_device = to.on_device() && from.on_device();
  return on_host || (synchronous && !on_device);
}

void note_order(const char* call, const Stream& stream, const Side& target, const Side& source, const Extent& extent) {
  std::vector<Access> accesses = accesses_of(target.pointer, target.pitch, extent, true);
  const std::vector<Access> read = accesses_of(source.pointer, source.pitch, extent, false);
  accesses.insert(accesses.end(), read.begin(), read.end());
  order::operation(stream, call, accesses.data(), static_cast<int>(accesses.size()));
}

// Late mode, as the manual lets it be at worst: an asynchronous copy reads its host source, and writes its host target,
// only when the stream gets there; a synchronous one has taken what it needs of pageable memory before it returns.
void copy_late(Stream& stream, const Side& target, const Side& source, const Extent& extent, const Operand& to,
               const Operand& from, bool synchronous) {
  const bool on_host = !to.on_device() && !from.on_device();
  if (!to.on_device() && !synchronous && !on_host) {
    late::run_users_of(host_range(to, target, extent));
    spoil(target, extent);
  }
  if (synchronous && from.place == Operand::kPageable && to.on_device()) {
    late::enqueue(stream, [target, extent, bytes = staged(source, extent)] {
      copy_rows(target, {bytes->data(), extent.width}, extent);
    });
    return;
  }
  const late::HostRange host = to.on_device() ? host_range(from, source, extent) : host_range(to, target, extent);
  const late::Point end = late::enqueue(
      stream, [target, source, extent] { copy_rows(target, source, extent); }, {}, host);
  if (is_done_at_return(to, from, synchronous)) late::run_until(end);
}

cudaError_t copy(const char* call, const Side& target, const Side& source, const Extent& extent, cudaMemcpyKind kind,
                 cudaStream_t handle, bool synchronous) {
  return with_stream(handle, call, [&](Stream& stream) -> cudaError_t {
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    if (extent.empty()) return cudaSuccess;
    Operand to, from;
    if (const cudaError_t error = find_operands(target, source, extent, &to, &from)) return error;
    if (const cudaError_t error = check_kind(call, stream, kind, to, from)) return error;
    stop_if_overlapping(call, target, source, extent, stream);
    if (faults::strikes(faults::Kind::copy, stream.device)) return cudaErrorUnknown;
    if (faults::breaks(stream.device)) return cudaSuccess;
    if (order::is_on()) {
      note_order(call, stream, target, source, extent);
      const bool from_pageable = from.place == Operand::kPageable && to.on_device();  // only staged when it returns
      if (is_done_at_return(to, from, synchronous) && !from_pageable) order::host_waited(stream);
    }
    if (is_late()) [[unlikely]] {
      copy_late(stream, target, source, extent, to, from, synchronous);
      return cudaSuccess;
    }
    run_in_order(stream, [&] { copy_rows(target, source, extent); });
    return cudaSuccess;
  });
}

void stop_if_not_owner(const char* call, const char* role, const Operand& operand, int device, const Stream& stream) {
  if (operand.place != device)
    stop("%s on current device cuda:%d, stream %p of cuda:%d: the %s %p is not memory of cuda:%d", call,
         this_thread.device, static_cast<const void*>(&stream), stream.device, role, operand.pointer, device);
}

cudaError_t copy_peer(const char* call, void* target, int target_device, const void* source, int source_device,
                      std::size_t bytes, cudaStream_t handle, bool serialised) {
  return with_stream(handle, call, [&](Stream& stream) -> cudaError_t {
    if (!is_device(target_device) || !is_device(source_device)) return cudaErrorInvalidDevice;
    if (bytes == 0) return cudaSuccess;
    const Side to_side{target, bytes}, from_side{source, bytes};
    const Extent extent{bytes, 1};
    Operand to, from;
    if (const cudaError_t error = find_operands(to_side, from_side, extent, &to, &from)) return error;
    stop_if_not_owner(call, "target", to, target_device, stream);
    stop_if_not_owner(call, "source", from, source_device, stream);
    stop_if_overlapping(call, to_side, from_side, extent, stream);
    if (faults::strikes(faults::Kind::copy, stream.device)) return cudaErrorUnknown;
    const faults::Transfer link = faults::transfer(target_device, source_device);
    if (link.is_down) return cudaErrorPeerAccessUnsupported;
    if (faults::breaks(stream.device)) return cudaSuccess;
    if (serialised) {  // with everything on the current device and on both owners
      for (const int device : {this_thread.device, target_device, source_device}) {
        if (is_late()) late::run_device(device_at(device));
        if (order::is_on()) order::host_waited(device_at(device));
      }
    }
    if (order::is_on()) {
      note_order(call, stream, to_side, from_side, extent);
      if (serialised) order::host_waited(stream);
    }
    run_in_order(stream, [=] {
      copy_rows(to_side, from_side, extent);
      link.finish(target, bytes);
    });
    if (is_late() && serialised) late::run_stream(stream);
    return cudaSuccess;
  });
}

}  // namespace

cudaError_t cudaMemcpy(void* target, const void* source, std::size_t bytes, cudaMemcpyKind kind) {
  return copy("cudaMemcpy", {target, bytes}, {source, bytes}, {bytes, 1}, kind, cudaStreamLegacy, true);
}

cudaError_t cudaMemcpyAsync(void* target, const void* source, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy("cudaMemcpyAsync", {target, bytes}, {source, bytes}, {bytes, 1}, kind, stream, false);
}

cudaError_t cudaMemcpyPeer(void* target, int target_device, const void* source, int source_device, std::size_t bytes) {
  return copy_peer("cudaMemcpyPeer", target, target_device, source, source_device, bytes, cudaStreamLegacy, true);
}

cudaError_t cudaMemcpyPeerAsync(void* target, int target_device, const void* source, int source_device,
                                std::size_t bytes, cudaStream_t stream) {
  return copy_peer("cudaMemcpyPeerAsync", target, target_device, source, source_device, bytes, stream, false);
}

cudaError_t cudaMemcpy2D(void* target, std::size_t target_pitch, const void* source, std::size_t source_pitch,
                         std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  return copy("cudaMemcpy2D", {target, target_pitch}, {source, source_pitch}, {width, height}, kind, cudaStreamLegacy,
              true);
}

cudaError_t cudaMemcpy2DAsync(void* target, std::size_t target_pitch, const void* source, std::size_t source_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy("cudaMemcpy2DAsync", {target, target_pitch}, {source, source_pitch}, {width, height}, kind, stream,
              false);
}
