// SPDX-License-Identifier: Apache-2.0
// Finds operands by arithmetic on the address and one lookup in the owner's span table.
#include "sim/runtime/operands.h"

#include <cstdio>

#include "sim/runtime/report.h"

namespace sim {
namespace {

const char* place_name(const Operand& operand, char (&text)[16]) {
  if (operand.place == Operand::kPinned) return "pinned host memory";
  if (operand.place == Operand::kPageable) return "pageable host memory";
  std::snprintf(text, sizeof text, "cuda:%d", operand.place);
  return text;
}

constexpr const char* kKindNames[] = {"cudaMemcpyHostToHost", "cudaMemcpyHostToDevice", "cudaMemcpyDeviceToHost",
                                      "cudaMemcpyDeviceToDevice"};

}  // namespace

std::vector<Access> accesses_of(const void* pointer, std::size_t pitch, const Extent& extent, bool write) {
  if (pitch == extent.width) return {{pointer, write, extent.width * extent.height}};
  std::vector<Access> rows;
  for (std::size_t row = 0; row < extent.height; ++row)
    rows.push_back({static_cast<const char*>(pointer) + row * pitch, write, extent.width});
  return rows;
}

cudaError_t find_operand(const void* pointer, std::size_t bytes, Operand* operand) {
  if (!pointer) return cudaErrorInvalidValue;
  *operand = {pointer};
  const std::uintptr_t index = arena_index(pointer);
  if (index >= arena_count) return cudaSuccess;
  const bool pinned = index == arena_count - 1;
  const Block block = find_block(pointer);
  if (!block) return cudaErrorInvalidValue;
  const std::size_t offset = static_cast<const char*>(pointer) - block.start;
  if (offset > block.bytes || bytes > block.bytes - offset) return cudaErrorInvalidValue;
  operand->place = pinned ? Operand::kPinned : static_cast<int>(index);
  if (pinned) return cudaSuccess;
  const Device& device = device_at(operand->place);
  operand->in_pool = block.span->pool.load(std::memory_order_relaxed) != &device.mallocs;
  return device.sticky.load(std::memory_order_relaxed);
}

cudaError_t check_kind(const char* call, const Stream& stream, cudaMemcpyKind kind, const Operand& target,
                       const Operand& source) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  char target_text[16], source_text[16];
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  if (kind != cudaMemcpyDefault && (from_device != source.on_device() || to_device != target.on_device()))
    stop("%s(target %p in %s, source %p in %s) on current device cuda:%d, stream %p of cuda:%d: the kind is %s", call,
         target.pointer, place_name(target, target_text), source.pointer, place_name(source, source_text),
         this_thread.device, static_cast<const void*>(&stream), stream.device, kKindNames[kind]);
  if ((target.in_pool || source.in_pool) && stream.device != this_thread.device)
    stop(
        "%s(target %p in %s, source %p in %s), stream %p of cuda:%d: a copy of pool memory wants the stream's device "
        "to be current, which is cuda:%d; use cudaMemcpyPeerAsync or cudaSetDevice",
        call, target.pointer, place_name(target, target_text), source.pointer, place_name(source, source_text),
        static_cast<const void*>(&stream), stream.device, this_thread.device);
  return cudaSuccess;
}

}  // namespace sim
