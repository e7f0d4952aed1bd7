// SPDX-License-Identifier: Apache-2.0
#include "runtime/autograd/targets.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace fanout {
namespace {

bool precedes(const Edge& a, const Edge& b) {
  return a.node.get() != b.node.get() ? std::less<>()(a.node.get(), b.node.get()) : a.slot < b.slot;
}

}  // namespace

Targets::Targets(std::vector<Edge> edges) : edges_(std::move(edges)) {
  std::sort(edges_.begin(), edges_.end(), precedes);
}

bool Targets::contains(const Edge& edge) const {
  return std::binary_search(edges_.begin(), edges_.end(), edge, precedes);
}

// Depth first with a path of its own: a graph may be deeper than the stack.
Selection::Selection(Node& root, const Targets& targets, std::uint64_t pass_id) : targets_(targets), pass_id_(pass_id) {
  enter(root);
  while (!path_.empty()) advance();
}

Selection::~Selection() {
  for (Node* node : seen_) {
    for (Edge& edge : node->inputs()) edge.wanted = true;
  }
}

void Selection::enter(Node& node) {
  if (node.is_leaf()) return;
  node.pass_id = pass_id_;
  seen_.push_back(&node);
  path_.push_back({&node, 0});
}

// Decides on one more edge of the path's last node, or first goes down to what is behind it.
void Selection::advance() {
  Step& step = path_.back();
  if (step.input == step.node->inputs().size()) {
    path_.pop_back();
    return;
  }
  Edge& edge = step.node->inputs()[step.input];
  const bool goes_on = edge.node && !edge.node->is_leaf() && !edge.node->is_closed();
  if (goes_on && edge.node->pass_id != pass_id_) {
    enter(*edge.node);
    return;
  }
  edge.wanted = edge.node && ((goes_on && edge.node->leads_on()) || targets_.contains(edge));
  ++step.input;
}

}  // namespace fanout
