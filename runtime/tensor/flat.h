// SPDX-License-Identifier: Apache-2.0
// Many tensors in one buffer: the same offsets on every device, so that a bucket is a range and needs no packing.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace fanout {

/// Offsets of a list of tensors in one buffer. Tensors of one dtype lie together; within a dtype the last tensor of the
/// list comes first, since backward finishes it first. Each starts at a multiple of 256 bytes; gaps are to be kept
/// zero.
class FlatLayout {
 public:
  static constexpr std::size_t kAlignmentBytes = 256;

  FlatLayout() = default;
  explicit FlatLayout(const std::vector<Tensor>& tensors);

  /// Size of the whole buffer.
  std::size_t bytes() const { return bytes_; }
  std::size_t count() const { return offsets_.size(); }
  /// Where tensor `index` of the list starts, in bytes.
  std::size_t offset(std::size_t index) const { return offsets_[index]; }
  /// Where its range ends, the gap behind it included.
  std::size_t end(std::size_t index) const { return ends_[index]; }
  /// Numbers of the tensors by growing offset.
  const std::vector<std::size_t>& order() const { return order_; }

  /// Tensor `index` as a part of `buffer`, with a write count of its own; the sizes and dtype are those of `like`.
  Tensor part(const Intrusive<Storage>& buffer, std::size_t index, const Tensor& like) const;
  /// True if every tensor of the list lies at its offset from the first one's buffer start, without gaps in itself.
  bool holds(const std::vector<Tensor>& tensors) const;

 private:
  std::vector<std::size_t> offsets_, ends_, order_;
  std::size_t bytes_ = 0;
};

/// A buffer for `layout` on `device`, filled with zeros.
Intrusive<Storage> zeroed_buffer(const FlatLayout& layout, Device device);

}  // namespace fanout
