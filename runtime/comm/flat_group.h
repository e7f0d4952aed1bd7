// SPDX-License-Identifier: Apache-2.0
// Many tensors in one buffer, so that one call moves them all: how a list is cut into groups, and a group's buffer. Not
// for users.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/tensor/flat.h"

namespace fanout::comm {

/// Numbers of tensors of one dtype, in the order of their list.
using Numbers = std::vector<std::size_t>;

/// Cuts a list into groups, one open group a dtype: a tensor joins its dtype's group, and the group is closed once it
/// holds `limit_bytes`. As torch groups what it broadcasts.
std::vector<Numbers> groups_closed_at(const std::vector<Tensor>& tensors, std::size_t limit_bytes);
/// The same, but a group is closed before the tensor that would take it beyond `limit_bytes`. As torch groups what it
/// reduces.
std::vector<Numbers> groups_within(const std::vector<Tensor>& tensors, std::size_t limit_bytes);

/// A group and its buffer's layout.
class FlatGroup {
 public:
  FlatGroup(const std::vector<Tensor>& tensors, Numbers numbers);

  const Numbers& numbers() const { return numbers_; }
  /// The group's members in `tensors` as one row-major tensor, zero in the gaps: a copy, except that a single row-major
  /// member is taken as it is.
  Tensor packed(const std::vector<Tensor>& tensors) const;
  /// Member `i` of the group in a buffer of its own that looks like a packed one, with its own count of writes.
  Tensor part(const Tensor& buffer, std::size_t i) const;

 private:
  Numbers numbers_;
  std::vector<Tensor> members_;
  FlatLayout layout_;
};

}  // namespace fanout::comm
