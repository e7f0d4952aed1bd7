// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/device/error.h"

namespace fanout {

Shape::Shape(std::span<const std::int64_t> sizes) : rank_(static_cast<int>(sizes.size())) {
  if (sizes.size() > kMaxRank) {
    throw InvalidArgument(fmt::format("a tensor has at most {} dimensions, {} were asked for", kMaxRank, sizes.size()));
  }
  for (int dim = 0; dim < rank_; ++dim) {
    const std::int64_t size = sizes[static_cast<std::size_t>(dim)];
    if (size < 0) throw InvalidArgument(fmt::format("dimension {} has the negative size {}", dim, size));
    (*this)[dim] = size;
  }
}

int Shape::normalize(int dim) const {
  const int counted = dim < 0 ? dim + rank_ : dim;
  if (counted < 0 || counted >= rank_) {
    throw InvalidArgument(fmt::format("dimension {} is out of range for shape {} (expected to be in range of [{}, {}])",
                                      dim, text(), -rank_, rank_ - 1));
  }
  return counted;
}

std::string Shape::text() const {
  return fmt::format("[{}]", fmt::join(sizes(), ", "));
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides = shape;
  std::int64_t step = 1;
  for (int dim = shape.rank() - 1; dim >= 0; --dim) {
    strides[dim] = step;
    step *= shape[dim];
  }
  return strides;
}

}  // namespace fanout
