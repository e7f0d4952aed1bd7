// SPDX-License-Identifier: Apache-2.0
#include "models/batches.h"

#include <algorithm>

namespace fanout::models {

Batches::Batches(const Split& split, std::int64_t features, std::int64_t batch_size)
    : split_(&split), features_(features), batch_size_(std::max<std::int64_t>(1, std::min(batch_size, rows()))) {
  for (Batch& batch : memory_) {
    batch.images = empty({batch_size_, features_}, DType::f32, Device::host(), HostMemory::pinned);
    batch.labels = empty({batch_size_}, DType::i64, Device::host(), HostMemory::pinned);
  }
}

Batch Batches::batch(std::int64_t index, std::span<const std::int64_t> order) {
  const Batch& memory = memory_[turn_];
  turn_ = 1 - turn_;
  const std::int64_t begin = index * batch_size_;
  const std::int64_t rows_here = std::min(batch_size_, rows() - begin);
  float* images = memory.images.data<float>();
  std::int64_t* labels = memory.labels.data<std::int64_t>();
  for (std::int64_t row = 0; row < rows_here; ++row) {
    const std::int64_t source = order[static_cast<std::size_t>(begin + row)];
    std::copy_n(split_->images.data() + source * features_, features_, images + row * features_);
    labels[row] = split_->labels[static_cast<std::size_t>(source)];
  }
  const auto first_rows = [&](const Tensor& tensor) {
    return strided_view(tensor, tensor.shape().with(0, rows_here), tensor.strides(), 0);
  };
  return {first_rows(memory.images), first_rows(memory.labels)};
}

}  // namespace fanout::models
