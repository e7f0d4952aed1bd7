// SPDX-License-Identifier: Apache-2.0
#include "runtime/autograd/sparse.h"

#include <algorithm>
#include <numeric>

#include "kernels/embedding.h"
#include "runtime/autograd/node.h"
#include "runtime/device/context.h"
#include "runtime/tensor/copy.h"

namespace fanout {
namespace {

Tensor joined(const std::vector<SparseRows>& parts, Tensor SparseRows::*member) {
  const Tensor& first = parts.front().*member;
  std::int64_t rows = 0;
  for (const SparseRows& part : parts) rows += (part.*member).shape()[0];
  const Tensor all = empty(first.shape().with(0, rows), first.dtype(), first.device());
  std::int64_t begin = 0;
  for (const SparseRows& part : parts) {
    const Tensor& rest = part.*member;
    copy(strided_view(all, rest.shape(), all.strides(), begin * all.strides()[0]), rest);
    begin += rest.shape()[0];
  }
  return all;
}

}  // namespace

void add_rows(const Tensor& target, const SparseRows& sparse, double scale) {
  const Tensor indices = contiguous_copy(sparse.indices), values = contiguous_copy(sparse.values);
  dispatch_floating(target.dtype(), "add_rows", [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    const DeviceGuard guard(target.device());
    FANOUT_CHECK(kernels::add_rows(compute_stream(target.device()).handle, target.data<T>(),
                                   static_cast<const std::int64_t*>(indices.data<std::int64_t>()),
                                   static_cast<const T*>(values.data<T>()), static_cast<T>(scale), indices.elements(),
                                   target.shape()[0], target.shape()[1]));
  });
}

Tensor dense_of(const SparseRows& sparse) {
  const Tensor& values = sparse.values;
  const Tensor dense = zeros(values.shape().with(0, sparse.rows), values.dtype(), values.device());
  add_rows(dense, sparse);
  return dense;
}

SparseRows coalesced(const SparseRows& sparse) {
  const std::vector<std::int64_t> numbers = to_vector<std::int64_t>(sparse.indices);
  std::vector<std::int64_t> unique = numbers;
  std::sort(unique.begin(), unique.end());
  unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
  std::vector<std::int64_t> places;  // of each row among the unique ones
  for (const std::int64_t number : numbers) {
    places.push_back(std::lower_bound(unique.begin(), unique.end(), number) - unique.begin());
  }
  const auto on_device = [&](const std::vector<std::int64_t>& list) {
    return copied_to(from_vector(list, {static_cast<std::int64_t>(list.size())}), sparse.values.device());
  };
  const auto count = static_cast<std::int64_t>(unique.size());
  return {on_device(unique), dense_of({on_device(places), sparse.values, count}), sparse.rows};
}

SparseRows concatenated(const std::vector<SparseRows>& parts) {
  if (parts.size() == 1) return parts.front();
  return {joined(parts, &SparseRows::indices), joined(parts, &SparseRows::values), parts.front().rows};
}

SparseRows copied_to(const SparseRows& sparse, Device device) {
  return {copied_to(sparse.indices, device), copied_to(sparse.values, device), sparse.rows};
}

std::optional<SparseRows> sparse_grad(const Tensor& leaf) {
  return leaf.body().sink ? static_cast<GradientSink&>(*leaf.body().sink).sparse() : std::nullopt;
}

}  // namespace fanout
