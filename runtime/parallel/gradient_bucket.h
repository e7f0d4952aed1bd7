// SPDX-License-Identifier: Apache-2.0
// The graph's node between the primary's parameters and the replicas': its forward is the broadcast, its backward one
// ncclReduce, as soon as all replicas have written the bucket's gradients.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/autograd/node.h"
#include "runtime/autograd/sparse.h"
#include "runtime/parallel/replicate.h"

namespace fanout {

/// What the buckets of one forward have in common.
struct BucketOwner {
  std::shared_ptr<ReplicaSet> set;
  /// Positions in the set's devices that take part; rank m of the communicator is members[m].
  Members members;
  Communicator* communicator = nullptr;
  int lanes = 1;
  /// Told the seconds that backward took from its first preparation to its end, and those of the exchange behind it.
  std::function<void(double)> took;
  std::chrono::steady_clock::time_point began{};
  bool finishing = false;
  bool waits = false;  // at the end, for sums that are not left to the optimizer
};

/// Output slot m * width + j is tensor j of the bucket on members[m], width being the number of its tensors. Runs on
/// the primary.
///
/// Where this bucket is all that contributes to its tensors' gradients, the primary's replica writes into the primary's
/// gradient and the reduction adds to it in place. Where a tensor gets a gradient from elsewhere in the same backward,
/// the replicas write to buffers of their own, and the sum is then added like any other gradient, so that nothing is
/// written twice at once.
class GradientBucket final : public Node {
 public:
  /// Bucket number `bucket` of `role`, the parameters or the buffers of the owner's set.
  GradientBucket(std::shared_ptr<BucketOwner> owner, FlatReplicas& role, std::size_t bucket);

  std::string_view name() const override { return "gradient bucket"; }
  /// Makes `tensor`, which holds tensor j of this bucket on members[m], an output of this node. Frozen ones stay as
  /// they are.
  void make_output(const Tensor& tensor, std::size_t m, std::size_t j);

  void begin() override;
  bool needs_preparation() const override { return true; }
  void prepare(BackwardPass& pass) override;
  Destination destination(int slot) override;
  void give(int slot, Tensor gradient, bool create_graph) override;
  void give_sparse(int slot, SparseRows rows, bool create_graph) override;
  void backward(BackwardPass& pass) override;
  std::vector<Tensor> differentiate(const Tensor& gradient) override;
  void finish() override;
  int preferred_lanes() const override { return owner_->lanes; }
  int lane_of(Device device) const override;

 private:
  std::size_t width() const { return bucket_.tensors.size(); }
  std::size_t ranks() const { return owner_->members.size(); }
  bool used_anywhere(std::size_t j) const;
  bool may_write_in_place(const BackwardPass& pass) const;
  Tensor place_of(std::size_t m, std::size_t j);
  void clear_unwritten(std::size_t j);
  void reduce(std::size_t begin, std::size_t end);
  bool leave_to_optimizer(std::size_t begin, std::size_t end);
  std::vector<SparseRows> take_sparse(std::size_t j);
  void apply_hooks_to(std::size_t j);
  void hand_over(BackwardPass& pass, std::size_t j, const std::vector<SparseRows>& sparse);

  std::shared_ptr<BucketOwner> owner_;
  FlatReplicas& role_;
  const Bucket& bucket_;
  std::vector<GradientSink*> sinks_;             // none for a frozen tensor
  std::vector<std::uint8_t> written_;            // by slot; each is set by its replica's lane alone
  std::vector<std::vector<SparseRows>> sparse_;  // by slot
  std::vector<Tensor> with_graph_;               // by slot, for `create_graph`
  std::vector<Intrusive<Storage>> own_;          // by rank, where the shared buffers may not be used
  bool direct_ = false;
  std::vector<std::uint8_t> is_left_;  // by tensor: its sum is left to the optimizer
};

}  // namespace fanout
