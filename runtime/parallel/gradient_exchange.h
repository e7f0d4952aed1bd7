// SPDX-License-Identifier: Apache-2.0
// From the replicas' gradients to the replicas' new parameters: sum on the primary, update there, copies back.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/autograd/pending_sum.h"
#include "runtime/parallel/replicate.h"

namespace fanout {

struct BucketOwner;

/// The sums of one backward's parameters that the optimizer may go on with.
///
/// Where devices work beside the host, a bucket's ncclReduce is queued as soon as the bucket is complete; the optimizer
/// then updates bucket by bucket, each as its sum arrives, and each is broadcast while the next is updated. Where the
/// threads that queue work do it themselves, nothing would run beside backward; there the sums wait for the optimizer,
/// and several lanes take pieces that stay in the caches from the sum through the update to the copies. Both ways go
/// through NCCL, and add in the same order.
class GradientExchange final : public PendingSum {
 public:
  /// For the parameters of `set`, which keeps the exchange and outlives its use: see leave().
  explicit GradientExchange(ReplicaSet& set);

  /// A backward begins. What an earlier one left is summed first.
  void begin(const BucketOwner& owner);
  /// The set ends: what is pending is summed now, and nothing is sent to replicas any more.
  void leave() noexcept;
  /// The bytes `begin` to `end` - 1 of the layout are complete on all members; those of the primary begin at `primary`,
  /// and the sum is to be written there. False, and nothing happens, if these do not lie in one buffer with those that
  /// were added before.
  bool add(std::size_t begin, std::size_t end, DType dtype, char* primary);
  void make() override;
  void make_and_update(const char* gradients, std::size_t bytes, const Update& update) override;

 private:
  // What still is to be summed, or waited for.
  struct Range {
    std::size_t begin, end;  // bytes of the layout
    DType dtype;
    char* base;     // where the layout begins in the primary's gradients
    Event* summed;  // where the sum is queued already
  };
  template <class Work>
  void once(const Work& work);
  void sum(const Range& range, std::size_t begin, std::size_t end, Communicator& through, Behind behind) const;
  void send(std::size_t begin, std::size_t end, Communicator& through, Behind behind) const;
  /// Cuts bytes `begin` to `end` - 1 into pieces and calls piece(channel, begin, end) for each, in lanes.
  template <class Piece>
  void in_pieces(std::size_t begin, std::size_t end, const Piece& piece) const;
  void update_in_pieces(std::size_t first, std::size_t last, const Update& update);
  void update_as_sums_arrive(std::size_t first, std::size_t last, const Update& update);
  void forget(std::size_t begin, std::size_t end);

  ReplicaSet* set_;  // null once it has ended
  Device primary_;
  bool by_threads_;
  Members members_;
  Communicator* communicator_ = nullptr;
  int lanes_ = 1;
  std::function<void(double)> took_;
  std::vector<Range> ranges_;
};

}  // namespace fanout
