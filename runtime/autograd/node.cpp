// SPDX-License-Identifier: Apache-2.0
#include "runtime/autograd/node.h"

#include <fmt/format.h>

#include "runtime/autograd/accumulate.h"
#include "runtime/autograd/backward.h"
#include "runtime/tensor/copy.h"

namespace fanout {
namespace {

Tensor exclusive_copy(const Tensor& tensor) {
  return copied_to(tensor, tensor.device());
}

}  // namespace

void SavedTensor::throw_stale(std::string_view operation) const {
  if (!tensor_.defined()) {
    throw InvalidArgument(fmt::format(
        "{}: backward already ran through this graph and released what it needs; run it once, or with retain_graph",
        operation));
  }
  throw InvalidArgument(fmt::format(
      "{}: a tensor saved for backward, {}, was written in place since (it has version {}, {} was saved); write to "
      "a copy, or run backward first",
      operation, tensor_.text(), tensor_.version(), version_));
}

// A long chain of nodes would recurse once a node; so the chain is taken apart in a loop.
void Node::destroy() {
  thread_local std::vector<Node*> dying;
  thread_local bool in_loop = false;
  dying.push_back(this);
  if (in_loop) return;
  in_loop = true;
  while (!dying.empty()) {
    Node* node = dying.back();
    dying.pop_back();
    delete node;
  }
  in_loop = false;
}

void Node::add_input(const Tensor& input) {
  Edge edge;
  if (tracked(input)) {
    const TensorBody& body = input.body();
    const Intrusive<RefCounted>& from = body.producer ? body.producer : body.sink;
    edge = {Intrusive<Node>(static_cast<Node*>(from.get())), body.producer ? body.slot : 0};
  }
  if (input_count_ < kInlineInputs) {
    inline_inputs_[input_count_++] = std::move(edge);
    return;
  }
  if (more_inputs_.empty()) more_inputs_.assign(std::begin(inline_inputs_), std::end(inline_inputs_));
  more_inputs_.push_back(std::move(edge));
  ++input_count_;
}

std::vector<Tensor> Node::differentiate(const Tensor&) {
  throw InvalidArgument(
      fmt::format("{} has no second derivative; build the loss from operators that have one", name()));
}

void Node::backward(BackwardPass& pass) {
  std::vector<Tensor> gradients = differentiate(take_gradient());
  for (std::size_t input = 0; input < gradients.size(); ++input) pass.give(*this, input, std::move(gradients[input]));
}

Destination Node::destination(int) {
  if (!gradient_.defined()) {
    gradient_ = empty(shape_, dtype_, device_);
    return {gradient_, false};
  }
  if (!gradient_.is_exclusive()) gradient_ = exclusive_copy(gradient_);
  return {gradient_, true};
}

void Node::give(int, Tensor gradient, bool create_graph) {
  if (!gradient_.defined()) {
    gradient_ = std::move(gradient);
  } else if (create_graph || !gradient_.is_exclusive()) {
    gradient_ = add(gradient_, gradient);
  } else {
    add_in_place(gradient_, contiguous_copy(gradient));
  }
}

Tensor GradientSink::gradient_or_none() const {
  if (!present_) return Tensor();
  return with_graph_.defined() ? with_graph_ : place_;
}

void GradientSink::clear() {
  present_ = false;
  with_graph_ = Tensor();
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

Destination GradientSink::destination(int) {
  const bool accumulate = present_;
  if (with_graph_.defined()) {
    copy(place(), with_graph_);
    with_graph_ = Tensor();
  }
  present_ = true;
  return {place(), accumulate};
}

void GradientSink::give(int slot, Tensor gradient, bool create_graph) {
  require_on(gradient.device());
  if (create_graph) {
    with_graph_ = present_ ? add(gradient_or_none(), gradient) : gradient;
    present_ = true;
    return;
  }
  if (!present_ && !place_.defined() && gradient.is_exclusive()) {
    place_ = std::move(gradient);
    present_ = true;
    return;
  }
  const Destination to = destination(slot);
  if (to.accumulate) {
    add_in_place(to.place, contiguous_copy(gradient));
  } else {
    copy(to.place, gradient);
  }
}

bool GradientSink::arrived(int) {
  if (is_parameter && !visited) {
    throw InvalidArgument(
        fmt::format("backward reached a parameter of shape {} on {} that no visit names: add it to its module's visit",
                    output_shape().text(), device().name()));
  }
  return false;
}

GradientSink& gradient_sink(const Tensor& leaf) {
  TensorBody& body = leaf.body();
  if (!body.sink) body.sink = make_intrusive<GradientSink>(leaf);
  return static_cast<GradientSink&>(*body.sink);
}

void attach(const Tensor& output, Intrusive<Node> node, int slot) {
  TensorBody& body = output.body();
  body.producer = std::move(node);
  body.slot = slot;
  body.requires_grad = true;
}

const Tensor& Tensor::set_requires_grad(bool on) const {
  if (body_->producer) {
    throw InvalidArgument(
        "set_requires_grad: this tensor is the result of an operator; only leaves collect gradients (use detach)");
  }
  if (on && !is_floating(dtype())) {
    throw InvalidArgument(fmt::format("set_requires_grad: gradients need f32 or f64, this tensor is {}", text()));
  }
  body_->requires_grad = on;
  if (on) gradient_sink(*this);
  return *this;
}

Tensor Tensor::grad() const {
  return body_->sink ? static_cast<const GradientSink&>(*body_->sink).gradient_or_none() : Tensor();
}

void Tensor::clear_grad() const {
  if (body_->sink) static_cast<GradientSink&>(*body_->sink).clear();
}

void Tensor::backward() const {
  fanout::backward(*this);
}

}  // namespace fanout
