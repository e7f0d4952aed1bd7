// SPDX-License-Identifier: Apache-2.0
// What the operands of copies and fills are: where they lie, whether they fit into their allocation.
#pragma once

#include <vector>

#include "sim/runtime/streams.h"
#include "sim/submit.h"

namespace sim {

/// A rectangle of bytes: `height` rows of `width`, `pitch` apart. A plain range is one row.
struct Extent {
  std::size_t width, height;
  bool empty() const { return width == 0 || height == 0; }
  std::size_t reach(std::size_t pitch) const { return (height - 1) * pitch + width; }
};

/// The bytes of the rectangle, one part for each row, or one where no gaps lie between them.
std::vector<Access> accesses_of(const void* pointer, std::size_t pitch, const Extent& extent, bool write);

struct Operand {
  static constexpr int kPinned = -1, kPageable = -2;
  const void* pointer = nullptr;
  int place = kPageable;  // a device, or one of the two above
  bool in_pool = false;   // from cudaMallocAsync
  bool on_device() const { return place >= 0; }
};

/// Looks the range up; 1 if the pointer is null or the range is not inside one live allocation, the device's sticky
/// error if it has one.
cudaError_t find_operand(const void* pointer, std::size_t bytes, Operand* operand);

/// Stops the program if the kind does not say where the operands lie, or (copies of pool memory) if the stream's device
/// is not current. 21 for a kind that does not exist.
cudaError_t check_kind(const char* call, const Stream& stream, cudaMemcpyKind kind, const Operand& target,
                       const Operand& source);

}  // namespace sim
