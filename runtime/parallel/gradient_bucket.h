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
#include "runtime/parallel/replicate.h"

namespace fanout {

/// What the buckets of one forward have in common.
struct BucketOwner {
  std::shared_ptr<ReplicaSet> set;
  std::size_t replicas = 0;
  Communicator* communicator = nullptr;
  int lanes = 1;
  /// Told the seconds from the first preparation of backward to its end.
  std::function<void(double)> backward_took;
  std::chrono::steady_clock::time_point began{};
  bool finishing = false;
};

/// Output slot replica * parameters + j is parameter j of the bucket on `replica`. Runs on the primary.
///
/// Where this bucket is all that contributes to its parameters' gradients, replica 0 writes into the primary's gradient
/// and the reduction adds to it in place. Where a parameter gets a gradient from elsewhere in the same backward, the
/// replicas write to buffers of their own, and the sum is then added like any other gradient, so that nothing is
/// written twice at once.
class GradientBucket final : public Node {
 public:
  GradientBucket(std::shared_ptr<BucketOwner> owner, std::size_t bucket);

  std::string_view name() const override { return "gradient bucket"; }
  /// Makes `tensor`, which holds parameter j of this bucket on `replica`, an output of this node. Frozen parameters
  /// stay as they are. For replica 0 the tensor is the primary's own, and must be detached from this node after the
  /// forward.
  void make_output(const Tensor& tensor, std::size_t replica, std::size_t j);

  void begin() override;
  bool needs_preparation() const override { return true; }
  void prepare(BackwardPass& pass) override;
  Destination destination(int slot) override;
  void give(int slot, Tensor gradient, bool create_graph) override;
  void backward(BackwardPass& pass) override;
  std::vector<Tensor> differentiate(const Tensor& gradient) override;
  void finish() override;
  int preferred_lanes() const override { return owner_->lanes; }
  int lane_of(Device device) const override;

 private:
  std::size_t width() const { return bucket_.parameters.size(); }
  bool used_anywhere(std::size_t j) const;
  Tensor place_of(std::size_t replica, std::size_t j);
  void clear_unwritten();
  void reduce_buffers();

  std::shared_ptr<BucketOwner> owner_;
  const Bucket& bucket_;
  std::vector<GradientSink*> sinks_;     // none for a frozen parameter
  std::vector<std::uint8_t> written_;    // by slot; each is set by its replica's lane alone
  std::vector<Tensor> with_graph_;       // by slot, for `create_graph`
  std::vector<Intrusive<Storage>> own_;  // by replica, where the shared buffers may not be used
  bool direct_ = false;
};

}  // namespace fanout
