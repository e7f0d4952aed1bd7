// SPDX-License-Identifier: Apache-2.0
// The gradients of leaves.
#include <fmt/format.h>

#include "runtime/autograd/accumulate.h"
#include "runtime/autograd/node.h"
#include "runtime/tensor/copy.h"

namespace fanout {

void GradientSink::begin() {
  make_pending();
  expected_in_pass_ = arrived_in_pass_ = 0;
  sums_apart_ = has_hooks();
  graph_in_pass_ = false;
}

Tensor GradientSink::gradient_or_none() const {
  make_pending();
  if (!sparse_.empty()) return dense_of(*sparse());
  if (!present_) return Tensor();
  return with_graph_.defined() ? with_graph_ : place_;
}

std::optional<SparseRows> GradientSink::sparse() const {
  return sparse_.empty() ? std::nullopt : std::optional(concatenated(sparse_));
}

bool GradientSink::place_is_shared() const {
  return !place_.body().has_one_owner() || !place_.body().storage->has_one_owner();
}

void GradientSink::clear() {
  make_pending();
  present_ = false;
  with_graph_ = Tensor();
  sparse_.clear();
}

void GradientSink::set_place(const Tensor& place) {
  clear();
  place_ = place;
}

void GradientSink::move_to(Device device) {
  set_device(device);
  set_place(Tensor());
}

void GradientSink::throw_moved(Device from) const {
  throw InvalidArgument(fmt::format(
      "backward through a graph that was built on {}, but its parameter or leaf of shape {} has moved to {} since; run "
      "backward before the move, or forward again",
      from.name(), output_shape().text(), device().name()));
}

const Tensor& GradientSink::place() {
  if (!place_.defined()) place_ = empty(output_shape(), output_dtype(), device());
  return place_;
}

void GradientSink::make_dense() {
  if (sparse_.empty()) return;
  copy(place(), gradient_or_none());
  sparse_.clear();
  present_ = true;
}

Destination GradientSink::destination(int slot) {
  return sums_apart_ ? Node::destination(slot) : own_destination();
}

Destination GradientSink::own_destination() {
  make_dense();
  const bool accumulate = present_;
  if (with_graph_.defined()) {
    copy(place(), with_graph_);
    with_graph_ = Tensor();
  }
  present_ = true;
  return {place(), accumulate};
}

void GradientSink::give(int, Tensor gradient, bool create_graph) {
  require_on(gradient.device());
  if (sums_apart_) {
    sum_apart(std::move(gradient), create_graph);
  } else {
    add(std::move(gradient), create_graph);
  }
}

void GradientSink::sum_apart(Tensor gradient, bool create_graph) {
  graph_in_pass_ = create_graph;
  if (create_graph || !this->gradient().defined()) {
    Node::give(0, std::move(gradient), create_graph);
    return;
  }
  add_in_place(Node::destination(0).place, contiguous_copy(gradient));  // also on the host, where no operator runs
}

void GradientSink::add(Tensor gradient, bool create_graph) {
  if (create_graph) {
    const Tensor former = gradient_or_none();
    with_graph_ = former.defined() ? fanout::add(former, gradient) : std::move(gradient);
    sparse_.clear();
    present_ = true;
    return;
  }
  if (!present_ && !place_.defined() && sparse_.empty() && gradient.is_exclusive()) {
    place_ = std::move(gradient);
    present_ = true;
    return;
  }
  const Destination to = own_destination();
  if (to.accumulate) {
    add_in_place(to.place, contiguous_copy(gradient));
  } else {
    copy(to.place, gradient);
  }
}

void GradientSink::give_sparse(int slot, SparseRows gradient, bool create_graph) {
  require_on(gradient.values.device());
  if (sums_apart_ || create_graph) {
    Node::give_sparse(slot, std::move(gradient), create_graph);
  } else if (present_) {
    add_rows(own_destination().place, gradient);
  } else {
    sparse_.push_back(std::move(gradient));
  }
}

bool GradientSink::arrived(int) {
  if (is_parameter && !visited) {
    throw InvalidArgument(
        fmt::format("backward reached a parameter of shape {} on {} that no visit names: add it to its module's visit",
                    output_shape().text(), device().name()));
  }
  if (++arrived_in_pass_ == expected_in_pass_ && sums_apart_) deliver();
  return false;
}

// All that this pass brings is here.
void GradientSink::deliver() {
  const DeviceGuard guard(device());
  Tensor sum = take_gradient();
  apply_hooks(0, sum);
  if (sum.defined() && !is_captured(0)) add(std::move(sum), graph_in_pass_);
}

}  // namespace fanout
