// SPDX-License-Identifier: Apache-2.0
// Nodes of the autograd graph: what an operator leaves behind for backward.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/pending_sum.h"
#include "runtime/autograd/sparse.h"
#include "runtime/tensor/tensor.h"

namespace fanout {

class BackwardPass;
class Node;
class NodeHooks;

/// Where a gradient goes: output `slot` of `node`. Empty where no gradient is wanted.
struct Edge {
  Intrusive<Node> node;
  int slot = 0;
  bool wanted = true;  // false during a grad() to whose inputs this edge does not lead
};

/// Where a backward writes a gradient itself: into `place` (contiguous), adding to it if `accumulate`.
struct Destination {
  Tensor place;
  bool accumulate = false;
};

/// A tensor kept for backward. Unpacking throws InvalidArgument when it was written in between.
class SavedTensor {
 public:
  SavedTensor() = default;
  /// An operand: kept with its place in the graph, for second derivatives.
  explicit SavedTensor(const Tensor& operand) : tensor_(operand), version_(operand.version()) {}
  /// The node's own output: kept without the graph, since an output that its node owns would never be freed.
  static SavedTensor output(const Tensor& output) { return SavedTensor(output.detach()); }

  const Tensor& unpack(std::string_view operation) const {
    if (!tensor_.defined() || tensor_.version() != version_) [[unlikely]]
      throw_stale(operation);
    return tensor_;
  }
  bool defined() const { return tensor_.defined(); }
  void release() { tensor_ = Tensor(); }

 private:
  [[noreturn]] void throw_stale(std::string_view operation) const;

  Tensor tensor_;
  std::uint32_t version_ = 0;
};

/// One operator call. Its backward turns the gradient of its output into gradients of its inputs.
///
/// How a gradient travels: for each edge that a backward will use, the pass first calls expect() once. The producer
/// then either asks for the destination(), queues what writes there before it asks for another one, and says arrived();
/// or it give()s a tensor, and says arrived(). All of this happens on the lane of the receiving node's device. A node
/// is run on its device's lane once all that was expected has arrived. A leaf may be told arrived() without a gradient:
/// then that contribution is nothing.
class Node : public RefCounted {
 public:
  /// `output`: the tensor that this node made (its device, shape and dtype are kept).
  explicit Node(const Tensor& output) : Node(output.device(), output.shape(), output.dtype()) {}
  Node(Device device, const Shape& shape, DType dtype) : device_(device), shape_(shape), dtype_(dtype) {}

  virtual std::string_view name() const = 0;
  /// Device whose lane runs this node and all writes to its gradient.
  Device device() const { return device_; }
  /// True for the end of the graph at a leaf, which only receives.
  virtual bool is_leaf() const { return false; }

  /// Hands gradients to the inputs that want one. Runs without graph. The default calls differentiate.
  virtual void backward(BackwardPass& pass);
  /// The inputs' gradients from the output's, made of differentiable operators: for backward with `create_graph`, and
  /// for operators that need no faster way. Entries for inputs without an edge may stay undefined. The default throws
  /// InvalidArgument: this operator has no second derivative.
  virtual std::vector<Tensor> differentiate(const Tensor& gradient);
  /// Drops what was saved for backward; called once the node has run, unless the graph is kept.
  virtual void release_saved() {}

  // What the pass calls; overridden by nodes with several outputs and by leaves.
  /// A pass begins: nothing is expected yet.
  virtual void begin() { expected_.store(0, std::memory_order_relaxed); }
  virtual void expect(int /*slot*/) { expected_.fetch_add(1, std::memory_order_relaxed); }
  /// All expectations of the pass are known. Only for nodes for which needs_preparation() holds.
  virtual void prepare(BackwardPass&) {}
  virtual bool needs_preparation() const { return false; }
  virtual Destination destination(int slot);
  virtual void give(int slot, Tensor gradient, bool create_graph);
  /// The same for a gradient of few rows. The default gives the whole matrix.
  virtual void give_sparse(int slot, SparseRows gradient, bool create_graph);
  /// One expected gradient is there; true if it was the last, so that the node can run.
  virtual bool arrived(int /*slot*/) { return expected_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  /// The pass in which this node asked for it (BackwardPass::finish_later) is over, all work is queued.
  virtual void finish() {}
  /// How many lanes a backward through this node should use, 0 for no opinion; and which lane serves a device.
  virtual int preferred_lanes() const { return 0; }
  virtual int lane_of(Device device) const { return device.index(); }

  /// Adds an input: the tensor's own node and slot, its leaf sink, or no edge where it needs no gradient.
  void add_input(const Tensor& input);
  std::span<Edge> inputs() { return {more_inputs_.empty() ? inline_inputs_ : more_inputs_.data(), input_count_}; }
  bool needs_gradient(std::size_t input) {
    const Edge& edge = inputs()[input];
    return edge.node && edge.wanted;
  }
  /// True if any input wants its gradient.
  bool leads_on();
  const Tensor& gradient() const { return gradient_; }
  Tensor take_gradient() { return std::move(gradient_); }
  /// Says that this node runs without an upstream gradient: a loss that begins backward has the gradient 1.
  virtual bool implies_one() const { return false; }

  /// True if something looks at the gradient of output `slot` when a pass has brought it: a hook, or grad().
  bool has_hooks(int slot) const { return hooks_ && is_observed(slot); }
  /// Shows the complete gradient of output `slot` to what looks at it, which may replace it; an undefined one is let
  /// be. Called once a pass and output, under the pass's grad mode: for nodes with one output the pass does it before
  /// they run, nodes with several do it themselves, first thing in backward and differentiate.
  void apply_hooks(int slot, Tensor& gradient) {
    if (hooks_) [[unlikely]]
      run_hooks(slot, gradient);
  }
  /// The same for the gradient that this class keeps.
  void apply_hooks() { apply_hooks(0, gradient_); }
  /// What register_hook and grad() add to; made if there is none.
  NodeHooks& hooks();

  /// Marks of the pass that last visited the node; one pass at a time.
  std::uint64_t pass_id = 0;
  /// Set for good by nodes whose outputs belong to several replicas.
  bool shared_by_replicas = false;
  /// True where this thread runs a forward whose other replicas have not finished: the node is not to be touched.
  bool is_closed() const { return shared_by_replicas && detail::in_replica_of_thread; }

 protected:
  void destroy() override;
  void set_device(Device device) { device_ = device; }
  /// True while a grad() wants the gradient of output `slot`.
  bool is_captured(int slot) const;
  const Shape& output_shape() const { return shape_; }
  DType output_dtype() const { return dtype_; }

 private:
  static constexpr std::size_t kInlineInputs = 3;

  struct DeleteHooks {
    void operator()(NodeHooks* hooks) const;
  };
  bool is_observed(int slot) const;
  void run_hooks(int slot, Tensor& gradient);

  Edge inline_inputs_[kInlineInputs];
  std::vector<Edge> more_inputs_;
  std::size_t input_count_ = 0;
  Device device_;
  Shape shape_;
  DType dtype_;
  Tensor gradient_;
  Node* next_dying_ = nullptr;
  std::unique_ptr<NodeHooks, DeleteHooks> hooks_;
  std::atomic<int> expected_{0};
};

/// A leaf's end of the graph: keeps its gradient in one place, where backward writes it. Where hooks or grad() look at
/// it, what a pass brings is first summed apart.
class GradientSink final : public Node {
 public:
  explicit GradientSink(const Tensor& leaf) : Node(leaf) {}

  std::string_view name() const override { return "leaf"; }
  bool is_leaf() const override { return true; }
  void begin() override;
  void expect(int) override { ++expected_in_pass_; }
  Destination destination(int slot) override;
  void give(int slot, Tensor gradient, bool create_graph) override;
  void give_sparse(int slot, SparseRows gradient, bool create_graph) override;
  bool arrived(int slot) override;

  /// The gradient, or an undefined tensor; of a sparse one, the whole matrix in new memory.
  Tensor gradient_or_none() const;
  void clear();
  /// Marks the place as holding a gradient, after somebody wrote it there.
  void set_present() { present_ = true; }
  bool present() const { return present_; }
  /// Marks the place as holding a gradient of which a sum is pending: whoever asks for the gradient, or begins a pass
  /// that comes here, has it made.
  void set_pending(Intrusive<PendingSum> sum) {
    present_ = true;
    pending_ = std::move(sum);
  }
  /// The pending sum, or null; and the place as it is.
  PendingSum* pending() const { return pending_.get(); }
  const Tensor& place_as_it_is() const { return place_; }
  /// True if somebody else has a handle or a view of the place, and so may read it without asking.
  bool place_is_shared() const;
  /// Where the gradient is to be written: a view of a flat buffer, on the leaf's device and of its shape.
  void set_place(const Tensor& place);
  const Tensor& place();
  /// The leaf moved: its gradient, if any, is forgotten, and the next one is kept on `device`.
  void move_to(Device device);
  /// Throws InvalidArgument if the leaf has moved away from `device`, where the graph was built.
  void require_on(Device device) const {
    if (device != this->device()) [[unlikely]]
      throw_moved(device);
  }
  /// Contributions that the current pass will make here.
  int expected_in_pass() const { return expected_in_pass_; }
  using Node::has_hooks;
  bool has_hooks() const { return has_hooks(0); }
  /// False where the current pass may not write to place() by itself: hooks or grad() look at the gradient, or the one
  /// that is there is sparse.
  bool takes_direct_writes() const { return !sums_apart_ && sparse_.empty(); }
  /// The gradient, if it is sparse.
  std::optional<SparseRows> sparse() const;
  bool is_sparse() const { return !sparse_.empty(); }

  /// A parameter that no visit has named is a mistake to report when its gradient arrives.
  bool is_parameter = false;
  bool visited = false;

 private:
  [[noreturn]] void throw_moved(Device from) const;
  void sum_apart(Tensor gradient, bool create_graph);
  void add(Tensor gradient, bool create_graph);
  void deliver();
  void make_dense();
  void make_pending() const {
    if (pending_) [[unlikely]]
      std::exchange(pending_, nullptr)->make();
  }
  Destination own_destination();

  Tensor place_;
  mutable Intrusive<PendingSum> pending_;
  Tensor with_graph_;               // the gradient instead, when it was made with `create_graph`
  std::vector<SparseRows> sparse_;  // the gradient instead, when it is sparse: the parts in order
  bool present_ = false;            // in place_ or with_graph_
  bool sums_apart_ = false;         // in this pass
  bool graph_in_pass_ = false;
  int expected_in_pass_ = 0;
  int arrived_in_pass_ = 0;
};

/// The leaf's sink, made if it has none; the tensor must require a gradient and be a leaf.
GradientSink& gradient_sink(const Tensor& leaf);

/// True if an operator on `tensor` must leave a node.
inline bool tracked(const Tensor& tensor) {
  return tensor.defined() && tensor.requires_grad();
}
template <class... Tensors>
bool any_tracked(const Tensors&... tensors) {
  return grad_enabled() && (tracked(tensors) || ...);
}

/// Makes `output` the result of `node`.
void attach(const Tensor& output, Intrusive<Node> node, int slot = 0);

/// Leaves a node behind `output` if any input is tracked: make(output) builds it, and the inputs become its edges.
template <class NodeType, class... Inputs>
NodeType* record(const Tensor& output, const Inputs&... inputs) {
  if (!any_tracked(inputs...)) return nullptr;
  auto node = make_intrusive<NodeType>(output);
  (node->add_input(inputs), ...);
  NodeType* made = node.get();
  attach(output, std::move(node));
  return made;
}

}  // namespace fanout
