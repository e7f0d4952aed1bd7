// SPDX-License-Identifier: Apache-2.0
// Sizes of a tensor's dimensions, outermost first, held in place.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace fanout {

/// Up to six sizes (or strides). Prints as "[32, 784]".
class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  /// Throws InvalidArgument for more than six sizes or a negative one.
  explicit Shape(std::span<const std::int64_t> sizes);

  int rank() const { return rank_; }
  std::int64_t operator[](int dim) const { return sizes_[static_cast<std::size_t>(dim)]; }
  std::int64_t& operator[](int dim) { return sizes_[static_cast<std::size_t>(dim)]; }
  /// Product of the sizes; 1 for rank 0.
  std::int64_t elements() const {
    std::int64_t product = 1;
    for (int dim = 0; dim < rank_; ++dim) product *= (*this)[dim];
    return product;
  }
  /// Product of the sizes of dimensions `first` to `last` - 1.
  std::int64_t elements(int first, int last) const {
    std::int64_t product = 1;
    for (int dim = first; dim < last; ++dim) product *= (*this)[dim];
    return product;
  }
  /// This shape with dimension `dim` of another size.
  Shape with(int dim, std::int64_t size) const {
    Shape changed = *this;
    changed[dim] = size;
    return changed;
  }
  /// `dim` counted from the front; negative ones count from the back. Throws InvalidArgument with the valid range.
  int normalize(int dim) const;
  std::span<const std::int64_t> sizes() const { return {sizes_.data(), static_cast<std::size_t>(rank_)}; }
  std::string text() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int dim = 0; dim < a.rank_; ++dim) {
      if (a[dim] != b[dim]) return false;
    }
    return true;
  }

 private:
  std::array<std::int64_t, kMaxRank> sizes_{};
  int rank_ = 0;
};

/// Strides, in elements, of a tensor of this shape without gaps, the last dimension running fastest.
Shape contiguous_strides(const Shape& shape);

}  // namespace fanout
