// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/flat_group.h"

#include <map>
#include <utility>

#include "runtime/tensor/copy.h"

namespace fanout::comm {
namespace {

struct OpenGroup {
  Numbers numbers;
  std::size_t bytes = 0;
};

std::vector<Tensor> picked(const std::vector<Tensor>& tensors, const Numbers& numbers) {
  std::vector<Tensor> members;
  for (const std::size_t number : numbers) members.push_back(tensors[number]);
  return members;
}

// `closes_before(bytes, more)` and `closes_after(bytes)` decide when the open group of a dtype ends.
template <class Before, class After>
std::vector<Numbers> cut(const std::vector<Tensor>& tensors, Before closes_before, After closes_after) {
  std::vector<Numbers> groups;
  std::map<DType, OpenGroup> open_groups;
  const auto close = [&](OpenGroup& open) { groups.push_back(std::move(std::exchange(open, {}).numbers)); };
  for (std::size_t number = 0; number < tensors.size(); ++number) {
    OpenGroup& open = open_groups[tensors[number].dtype()];
    if (closes_before(open.bytes, tensors[number].bytes())) close(open);
    open.numbers.push_back(number);
    open.bytes += tensors[number].bytes();
    if (closes_after(open.bytes)) close(open);
  }
  for (auto& [dtype, open] : open_groups) {
    if (!open.numbers.empty()) close(open);
  }
  return groups;
}

}  // namespace

std::vector<Numbers> groups_closed_at(const std::vector<Tensor>& tensors, std::size_t limit_bytes) {
  return cut(
      tensors, [](std::size_t, std::size_t) { return false; }, [&](std::size_t bytes) { return bytes >= limit_bytes; });
}

std::vector<Numbers> groups_within(const std::vector<Tensor>& tensors, std::size_t limit_bytes) {
  return cut(
      tensors, [&](std::size_t bytes, std::size_t more) { return bytes > 0 && bytes + more > limit_bytes; },
      [](std::size_t) { return false; });
}

FlatGroup::FlatGroup(const std::vector<Tensor>& tensors, Numbers numbers)
    : numbers_(std::move(numbers)), members_(picked(tensors, numbers_)), layout_(members_) {}

Tensor FlatGroup::packed(const std::vector<Tensor>& tensors) const {
  if (numbers_.size() == 1) return contiguous_copy(tensors[numbers_[0]]);
  const Tensor& first = tensors[numbers_[0]];
  const auto elements = static_cast<std::int64_t>(layout_.bytes() / size_of(first.dtype()));
  const Tensor buffer = over_storage(zeroed_buffer(layout_, first.device()), 0, Shape{elements}, first.dtype());
  for (std::size_t i = 0; i < numbers_.size(); ++i) copy(part(buffer, i), tensors[numbers_[i]]);
  return buffer;
}

Tensor FlatGroup::part(const Tensor& buffer, std::size_t i) const {
  return layout_.part(buffer.body().storage, i, members_[i]);
}

}  // namespace fanout::comm
