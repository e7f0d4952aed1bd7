// SPDX-License-Identifier: Apache-2.0
// Joins the replicas' outputs on one device; backward scatters the gradient back to them.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/parallel/structure.h"

namespace fanout {

namespace detail {

/// Who made an output, for messages.
struct OutputOrigin {
  std::size_t replica;
  Device device;
  std::int64_t rows = -1;  // of its chunk, -1 if unknown
};

/// Joins the values that `walks` go through, one a replica: their tensors are put, joined, in the places of the first.
/// Throws InvalidArgument with the path from "output" on where the values differ in structure, where tensors do not
/// fit, and where something that is no tensor differs.
void join_outputs(const std::vector<TensorWalk>& walks, const std::vector<OutputOrigin>& origins, int dim,
                  Device target);

}  // namespace detail

/// Joins `outputs`, one a replica in order, on `target`, a device or the host: tensors along `dim`, those of rank 0 to
/// a vector. The result has the structure that all outputs have; what is no tensor must be equal in all of them.
/// Differentiable. Throws InvalidArgument, with the path and both replicas, where outputs do not fit together. Source:
/// torch.nn.parallel.gather.
template <class T>
T gather(const std::vector<T>& outputs, Device target, int dim = 0) {
  std::vector<T> values = outputs;
  std::vector<TensorWalk> walks;
  std::vector<detail::OutputOrigin> origins;
  for (T& value : values) {
    Device device = target;
    for_each_tensor(value, [&, first = true](const Tensor& tensor) mutable {
      if (first && tensor.defined()) device = tensor.device();
      first = false;
    });
    origins.push_back({walks.size(), device});
    walks.emplace_back([&value](TensorVisitor& visitor) { visitor.walk(value); });
  }
  detail::join_outputs(walks, origins, dim, target);
  return std::move(values.front());
}

}  // namespace fanout
