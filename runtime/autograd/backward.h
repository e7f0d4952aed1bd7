// SPDX-License-Identifier: Apache-2.0
// Runs a graph backwards, over as many lanes as pay.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "runtime/autograd/node.h"
#include "runtime/autograd/targets.h"

namespace fanout {

struct BackwardOptions {
  /// Keep what operators saved, so that backward can run again through this graph.
  bool retain_graph = false;
  /// Make the gradients results of operators, so that they can be differentiated again. Implies retain_graph.
  bool create_graph = false;
};

/// Adds to every leaf that `output` depends on the gradient of sum(output * gradient). Without `gradient` the output
/// must have one element, and 1 is meant. Throws InvalidArgument if the output depends on no leaf that requires a
/// gradient. One backward at a time goes through a graph. All work is queued when this returns; an error names its
/// operator.
void backward(const Tensor& output, const Tensor& gradient = {}, BackwardOptions options = {});

namespace detail {
/// The node and slot that `output` has in the graph; of a leaf, its sink.
Edge edge_of(const Tensor& tensor);
/// What a pass from `output` begins with: `gradient`, or ones; undefined if the first node implies a 1. Throws
/// InvalidArgument, beginning with `operation`, where backward does.
Tensor first_gradient(std::string_view operation, const Tensor& output, const Tensor& gradient,
                      BackwardOptions options);
}  // namespace detail

/// One run of the engine. Operators reach it through the helpers of their node.
class BackwardPass {
 public:
  /// With `targets` the pass is a grad(): it only goes where it leads to one of them, and writes no leaf's gradient.
  explicit BackwardPass(BackwardOptions options, Targets targets = {});
  void run(const Tensor& output, Tensor gradient);

  bool create_graph() const { return options_.create_graph; }
  /// True if a producer may write to sink.place() itself, and then set_present(), instead of asking for a destination.
  bool writes_directly(const GradientSink& sink) const { return targets_.empty() && sink.takes_direct_writes(); }

  /// Where input `input` of `node` wants its gradient; the caller writes it there and then calls arrived.
  Destination destination(Node& node, std::size_t input);
  void arrived(Node& node, std::size_t input);
  /// Hands over a gradient for input `input` of `node`; nothing happens where none is wanted. For a leaf it may be
  /// undefined: nothing came.
  void give(Node& node, std::size_t input, Tensor gradient);
  /// The same for an edge that is not among the inputs of a node.
  void give(const Edge& edge, Tensor gradient);
  /// give for a gradient of few rows.
  void give_sparse(Node& node, std::size_t input, SparseRows gradient);
  void arrived(const Edge& edge);

  /// Calls node.finish() once after the last node of this pass has run, in the calling thread; not if the pass fails.
  void finish_later(Node& node);

 private:
  struct Queue;

  void collect(Node& root);
  void run_collected(Node& root, int slot, Tensor gradient);
  void push(Node* node);
  void run_node(Node& node);
  void run_inline();
  void run_lane(int lane, int lanes);
  int lane_of(Device device, int lanes) const;
  int choose_lanes() const;

  BackwardOptions options_;
  Targets targets_;
  std::uint64_t id_;
  std::vector<Node*> nodes_;
  const Node* adviser_ = nullptr;
  std::vector<Queue>* queues_ = nullptr;
  std::vector<Node*> ready_;
  std::mutex finishing_lock_;
  std::vector<Intrusive<Node>> finishing_;
  std::atomic<int> lanes_{1};
  std::atomic<int> left_{0};
  std::atomic<bool> stopped_{false};
};

}  // namespace fanout
