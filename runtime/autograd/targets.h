// SPDX-License-Identifier: Apache-2.0
// What a grad() asks for, and the way there.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/autograd/node.h"

namespace fanout {

/// The outputs of nodes whose gradients are asked for; none in an ordinary backward.
class Targets {
 public:
  Targets() = default;
  explicit Targets(std::vector<Edge> edges);
  bool empty() const { return edges_.empty(); }
  bool contains(const Edge& edge) const;

 private:
  std::vector<Edge> edges_;  // sorted
};

/// While it lives, exactly those edges below `root` are wanted that lead to a target. Leaves are not looked into:
/// passes through other graphs may share them.
class Selection {
 public:
  /// `pass_id`: one that no other pass has.
  Selection(Node& root, const Targets& targets, std::uint64_t pass_id);
  ~Selection();
  Selection(const Selection&) = delete;
  Selection& operator=(const Selection&) = delete;

 private:
  struct Step {
    Node* node;
    std::size_t input;
  };
  void enter(Node& node);
  void advance();

  const Targets& targets_;
  std::uint64_t pass_id_;
  std::vector<Step> path_;
  std::vector<Node*> seen_;
};

}  // namespace fanout
