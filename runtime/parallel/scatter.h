// SPDX-License-Identifier: Apache-2.0
// Splits a tensor over devices; backward gathers the pieces' gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/autograd/node.h"

namespace fanout {

/// A tensor that is to be split along one dimension. Pieces are made one by one, each by the lane that will use it, so
/// the copies run beside each other. A piece whose device already holds the source is a view of it.
class Scatter {
 public:
  /// `sizes` along `dim` must sum to the source's; the source may be on the host or on any device.
  Scatter(const Tensor& source, int dim, const std::vector<std::int64_t>& sizes, const std::vector<Device>& devices);

  /// Piece `index`, on devices[index]. Different pieces may be made by different threads.
  Tensor piece(std::size_t index) const;

 private:
  Tensor source_;
  int dim_;
  std::vector<std::int64_t> begins_, sizes_;
  std::vector<Device> devices_;
  Intrusive<Node> node_;
};

}  // namespace fanout
