// SPDX-License-Identifier: Apache-2.0
#include "runtime/autograd/node.h"

#include <fmt/format.h>

#include <utility>

#include <algorithm>

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
  // Without a destructor: a global tensor may go after what the main thread holds.
  static constinit thread_local Node* last_dying = nullptr;
  static constinit thread_local bool in_loop = false;
  next_dying_ = std::exchange(last_dying, this);
  if (in_loop) return;
  in_loop = true;
  while (last_dying != nullptr) {
    Node* node = last_dying;
    last_dying = node->next_dying_;
    delete node;
  }
  in_loop = false;
}

void Node::add_input(const Tensor& input) {
  Edge edge = tracked(input) ? detail::edge_of(input) : Edge();
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

bool Node::leads_on() {
  const std::span<Edge> edges = inputs();
  return std::any_of(edges.begin(), edges.end(), [](const Edge& edge) { return edge.node && edge.wanted; });
}

void Node::give_sparse(int slot, SparseRows gradient, bool create_graph) {
  give(slot, dense_of(gradient), create_graph);
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
