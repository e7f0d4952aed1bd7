// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/flat.h"

#include <algorithm>
#include <numeric>

#include "runtime/device/context.h"

namespace fanout {

FlatLayout::FlatLayout(const std::vector<Tensor>& tensors)
    : offsets_(tensors.size()), ends_(tensors.size()), order_(tensors.size()) {
  std::iota(order_.rbegin(), order_.rend(), std::size_t{0});
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::size_t a, std::size_t b) { return tensors[a].dtype() < tensors[b].dtype(); });
  for (const std::size_t index : order_) {
    offsets_[index] = bytes_;
    bytes_ += (tensors[index].bytes() + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
    ends_[index] = bytes_;
  }
}

Tensor FlatLayout::part(const Intrusive<Storage>& buffer, std::size_t index, const Tensor& like) const {
  return over_storage(Storage::part(buffer, offsets_[index], like.bytes()), 0, like.shape(), like.dtype());
}

bool FlatLayout::holds(const std::vector<Tensor>& tensors) const {
  if (tensors.size() != count()) return false;
  const char* base = nullptr;
  for (const std::size_t index : order_) {
    const Tensor& tensor = tensors[index];
    const char* start = tensor.body().data - offsets_[index];
    if (base == nullptr) base = start;
    if (start != base || !tensor.is_contiguous() || tensor.device() != tensors[0].device()) return false;
  }
  return true;
}

Intrusive<Storage> zeroed_buffer(const FlatLayout& layout, Device device) {
  auto buffer = Storage::allocate(device, layout.bytes());
  if (layout.bytes() > 0) {
    const DeviceGuard guard(device);
    FANOUT_CHECK(cudaMemsetAsync(buffer->pointer(), 0, layout.bytes(), compute_stream(device).handle));
  }
  return buffer;
}

}  // namespace fanout
