// SPDX-License-Identifier: Apache-2.0
#include "runtime/autograd/backward.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <mutex>
#include <utility>

#include "runtime/autograd/autocast.h"
#include "runtime/device/workers.h"
#include "runtime/trace/stages.h"

namespace fanout {
namespace {

constexpr std::size_t kUsualNodes = 64;

std::atomic<std::uint64_t> last_pass_id{0};

[[noreturn]] void throw_in_forward() {
  throw InvalidArgument(
      "backward inside the forward of a replica: the other replicas have not finished; call backward on the gathered "
      "output");
}

// What the nodes of a failed or finished pass still hold.
void forget_gradients(const std::vector<Node*>& nodes) {
  for (Node* node : nodes) node->take_gradient();
}

}  // namespace

// Nodes that are ready for one lane. LIFO: a chain stays in the caches, and its memory is reused at once.
struct BackwardPass::Queue {
  std::mutex lock;
  std::vector<Node*> nodes;
  Signal changed;

  void push(Node* node) {
    {
      const std::lock_guard guard(lock);
      nodes.push_back(node);
    }
    changed.advance();
  }
  Node* pop() {
    const std::lock_guard guard(lock);
    if (nodes.empty()) return nullptr;
    Node* node = nodes.back();
    nodes.pop_back();
    return node;
  }
};

BackwardPass::BackwardPass(BackwardOptions options, Targets targets)
    : options_(options), targets_(std::move(targets)), id_(++last_pass_id) {}

void BackwardPass::collect(Node& root) {
  std::vector<Node*> open;
  nodes_.reserve(kUsualNodes);
  open.reserve(kUsualNodes);
  const auto see = [&](Node* node) {
    if (node->is_closed()) throw_in_forward();
    if (node->pass_id == id_) return;
    node->pass_id = id_;
    node->begin();
    nodes_.push_back(node);
    open.push_back(node);
  };
  see(&root);
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    for (const Edge& edge : node->inputs()) {
      if (!edge.node || !edge.wanted) continue;
      see(edge.node.get());
      edge.node->expect(edge.slot);
    }
  }
  for (Node* node : nodes_) {
    if (node->needs_preparation()) node->prepare(*this);
    if (node->preferred_lanes() > 0) adviser_ = node;
  }
}

int BackwardPass::choose_lanes() const {
  if (adviser_) return adviser_->preferred_lanes();
  unsigned devices = 0;
  for (const Node* node : nodes_) {
    if (!node->device().is_host()) devices |= 1U << node->device().index();
  }
  return std::popcount(devices);
}

int BackwardPass::lane_of(Device device, int lanes) const {
  if (device.is_host()) return 0;
  return (adviser_ ? adviser_->lane_of(device) : device.index()) % lanes;
}

void BackwardPass::push(Node* node) {
  if (lanes_ == 1) {
    ready_.push_back(node);
  } else {
    (*queues_)[static_cast<std::size_t>(lane_of(node->device(), lanes_))].push(node);
  }
}

void BackwardPass::run_node(Node& node) {
  const DeviceGuard guard(node.device());
  const StageScope stage(node.device(), Stage::backward);
  node.apply_hooks();
  if (!targets_.empty() && node.gradient().defined() && !node.leads_on()) {
    node.take_gradient();  // the way ends here, at a target
    return;
  }
  if (options_.create_graph) {
    std::vector<Tensor> gradients = node.differentiate(node.gradient());
    for (std::size_t input = 0; input < gradients.size(); ++input) give(node, input, std::move(gradients[input]));
  } else {
    node.backward(*this);
  }
  node.take_gradient();
  if (!options_.retain_graph && !options_.create_graph) node.release_saved();
}

void BackwardPass::run_inline() {
  while (!ready_.empty()) {
    Node* node = ready_.back();
    ready_.pop_back();
    run_node(*node);
  }
}

void BackwardPass::run_lane(int lane, int lanes) {
  const GradMode mode(options_.create_graph);
  const Autocast none(DType::bf16, false);  // the forward has decided the types
  if (lanes == 1) {
    run_inline();
    return;
  }
  Queue& own = (*queues_)[static_cast<std::size_t>(lane)];
  const auto wake_all = [&] {
    for (Queue& queue : *queues_) queue.changed.advance();
  };
  while (!stopped_.load(std::memory_order_acquire)) {
    const std::uint32_t seen = own.changed.value();
    Node* node = own.pop();
    if (node == nullptr) {
      if (!stopped_.load(std::memory_order_acquire)) own.changed.wait_until_differs_from(seen);
      continue;
    }
    try {
      run_node(*node);
    } catch (...) {
      stopped_ = true;
      wake_all();
      throw;
    }
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      stopped_ = true;
      wake_all();
    }
  }
}

void BackwardPass::run(const Tensor& output, Tensor gradient) {
  const Edge root = detail::edge_of(output);  // held: a hook may let go of the output
  if (targets_.empty()) return run_collected(*root.node, root.slot, std::move(gradient));
  const Selection selection(*root.node, targets_, ++last_pass_id);
  if (root.node->leads_on() || targets_.contains(root)) run_collected(*root.node, root.slot, std::move(gradient));
}

void BackwardPass::run_collected(Node& root, int slot, Tensor gradient) {
  collect(root);
  root.expect(slot);
  const int lanes = choose_lanes();
  const auto runs = [](const Node* node) { return !node->is_leaf(); };
  left_ = lanes > 1 ? static_cast<int>(std::count_if(nodes_.begin(), nodes_.end(), runs)) : 0;
  std::vector<Queue> queues(static_cast<std::size_t>(std::max(1, lanes)));
  queues_ = &queues;
  const auto begin = [&] {
    if (gradient.defined()) root.give(slot, std::move(gradient), options_.create_graph);
    if (root.arrived(slot)) push(&root);
  };
  try {
    Workers::of_process().run(lanes, [&](int lane, int used) {
      if (lane == 0) {
        lanes_ = used;
        begin();
      }
      run_lane(lane, used);
    });
  } catch (...) {
    forget_gradients(nodes_);
    throw;
  }
  for (const Intrusive<Node>& node : finishing_) node->finish();
}

void BackwardPass::finish_later(Node& node) {
  const std::lock_guard guard(finishing_lock_);
  finishing_.push_back(Intrusive<Node>(&node));
}

Destination BackwardPass::destination(Node& node, std::size_t input) {
  const Edge& edge = node.inputs()[input];
  if (edge.node->is_leaf()) static_cast<GradientSink&>(*edge.node).require_on(node.device());
  return edge.node->destination(edge.slot);
}

void BackwardPass::arrived(const Edge& edge) {
  if (edge.node->arrived(edge.slot)) push(edge.node.get());
}

void BackwardPass::arrived(Node& node, std::size_t input) {
  arrived(node.inputs()[input]);
}

void BackwardPass::give(const Edge& edge, Tensor gradient) {
  const bool nothing = !gradient.defined() && edge.node->is_leaf();
  if (!nothing) edge.node->give(edge.slot, std::move(gradient), options_.create_graph);
  arrived(edge);
}

void BackwardPass::give(Node& node, std::size_t input, Tensor gradient) {
  if (node.needs_gradient(input)) give(node.inputs()[input], std::move(gradient));
}

void BackwardPass::give_sparse(Node& node, std::size_t input, SparseRows gradient) {
  if (!node.needs_gradient(input)) return;
  const Edge& edge = node.inputs()[input];
  edge.node->give_sparse(edge.slot, std::move(gradient), options_.create_graph);
  arrived(edge);
}

Edge detail::edge_of(const Tensor& tensor) {
  const TensorBody& body = tensor.body();
  const Intrusive<RefCounted>& from = body.producer ? body.producer : body.sink;
  return {Intrusive<Node>(static_cast<Node*>(from.get())), body.producer ? body.slot : 0};
}

Tensor detail::first_gradient(std::string_view operation, const Tensor& output, const Tensor& gradient,
                              BackwardOptions options) {
  if (!output.defined() || !output.requires_grad()) {
    throw InvalidArgument(
        fmt::format("{}: {} depends on no tensor that requires a gradient; was it made under NoGrad, or detached?",
                    operation, output.text()));
  }
  if (!gradient.defined() && output.elements() != 1) {
    throw InvalidArgument(fmt::format(
        "{}: only a one-element output has an implied gradient, this one is {}; pass a gradient of its shape",
        operation, output.text()));
  }
  if (gradient.defined() && (!(gradient.shape() == output.shape()) || gradient.dtype() != output.dtype() ||
                             gradient.device() != output.device())) {
    throw InvalidArgument(fmt::format("{}: the output is {}, the gradient {}; shape, dtype and device must agree",
                                      operation, output.text(), gradient.text()));
  }
  if (gradient.defined()) return gradient;
  const Edge first = edge_of(output);
  const bool implied = first.node->implies_one() && !options.create_graph && !first.node->has_hooks(first.slot);
  return implied ? Tensor() : full(output.shape(), 1, output.dtype(), output.device());
}

void backward(const Tensor& output, const Tensor& gradient, BackwardOptions options) {
  Tensor first = detail::first_gradient("backward", output, gradient, options);
  BackwardPass(options).run(output, std::move(first));
}

}  // namespace fanout
