// SPDX-License-Identifier: Apache-2.0
// Batches of a data set in pinned host memory, so that their copies run beside the host.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/datasets/dataset.h"
#include "runtime/tensor/tensor.h"

namespace fanout::models {

struct Batch {
  Tensor images;  // f32 [rows, features], pinned host memory
  Tensor labels;  // i64 [rows], pinned host memory
};

/// Cuts a split into batches of `batch_size` rows, the last one smaller, in an order that the caller gives. Two sets of
/// pinned memory take turns: a batch stays as it is until the second one after it is asked for.
class Batches {
 public:
  /// Refers to `split`. `features` is the length of an image.
  Batches(const Split& split, std::int64_t features, std::int64_t batch_size);

  std::int64_t rows() const { return static_cast<std::int64_t>(split_->labels.size()); }
  std::int64_t count() const { return (rows() + batch_size_ - 1) / batch_size_; }

  /// Batch `index` of the rows in `order`, which has one entry a row.
  Batch batch(std::int64_t index, std::span<const std::int64_t> order);

 private:
  const Split* split_;
  std::int64_t features_, batch_size_;
  Batch memory_[2];
  int turn_ = 0;
};

}  // namespace fanout::models
