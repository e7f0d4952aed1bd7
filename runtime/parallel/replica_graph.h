// SPDX-License-Identifier: Apache-2.0
// The autograd graph between the primary's tensors and the replicas'.
#pragma once

#include <memory>
#include <vector>

#include "runtime/parallel/gradient_bucket.h"

namespace fanout::detail {

/// Makes the tensors of replicas results of the module's: a node for each bucket that has a tensor with gradient.
class ReplicaGraph {
 public:
  /// Without `owner->set`'s tensors requiring a gradient, and where no graph is built, there are no nodes.
  explicit ReplicaGraph(std::shared_ptr<BucketOwner> owner);
  ReplicaGraph(ReplicaGraph&&) = default;
  /// Leaves.
  ~ReplicaGraph();

  /// Points the tensors of `copy`, a copy of the module, at those of members[m].
  void bind(const ModuleView& copy, std::size_t m) const;
  /// Makes the module's own tensors, as those of members[0], results in the graph until this is destroyed.
  void enter_primary();

 private:
  struct Role {
    FlatReplicas* tensors;
    const std::vector<VisitedTensor>* visited;
    std::vector<Intrusive<GradientBucket>> buckets;  // null where no tensor requires a gradient
  };
  Role role(FlatReplicas& tensors, const std::vector<VisitedTensor>& visited) const;
  Tensor bound(const Role& role, std::size_t m, std::size_t index) const;

  std::shared_ptr<BucketOwner> owner_;
  std::vector<Role> roles_;  // parameters, buffers
  bool entered_ = false;
};

}  // namespace fanout::detail
