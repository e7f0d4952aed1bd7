// SPDX-License-Identifier: Apache-2.0
// The replicas' memory: flat copies of the primary's parameters and buffers on the other devices, kept between steps
// and sent again only when something was written. And replicate(), which makes modules over such copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/nn/module.h"
#include "runtime/tensor/flat.h"

namespace fanout {

class GradientExchange;

/// Positions in a list of devices that take part in something, ascending. The first is 0: the primary.
using Members = std::vector<std::size_t>;

/// A contiguous range of gradients that is reduced by one call, in the same order on every rank.
struct Bucket {
  std::size_t begin_bytes = 0, end_bytes = 0;
  DType dtype = DType::f32;
  /// Numbers of its tensors, by growing offset.
  std::vector<std::size_t> tensors;
};

/// Cuts a layout into buckets of whole tensors, each closed once it holds `bucket_bytes`; one dtype a bucket.
std::vector<Bucket> cut_into_buckets(const FlatLayout& layout, const std::vector<Tensor>& tensors,
                                     std::size_t bucket_bytes);

/// The tensors of one role (parameters or buffers) on the primary, and their copies on the other devices. Replica 0 is
/// the primary itself.
class FlatReplicas {
 public:
  /// `originals` lie on devices[0] as a FlatLayout of theirs says (as `to` leaves them).
  FlatReplicas(std::vector<Tensor> originals, const std::vector<Device>& devices, std::size_t bucket_bytes);

  const FlatLayout& layout() const { return layout_; }
  const std::vector<Tensor>& originals() const { return originals_; }
  /// Tensor `index` on replica `replica`, outside any graph.
  const Tensor& tensor(std::size_t replica, std::size_t index) const {
    return replica == 0 ? originals_[index] : copies_[replica - 1].tensors[index];
  }
  /// Brings the replicas among `members` up to date by broadcasts of the ranges that were written, on the primary or on
  /// a replica; returns the bytes sent. The replicas must not be used, nor end, before
  /// communicator.wait_for_collectives().
  std::size_t send_changes(const Members& members, Communicator& communicator);
  /// Queues the broadcast of bytes `begin` to `end` - 1 of the layout.
  void send(const Members& members, std::size_t begin, std::size_t end, Communicator& communicator,
            Behind behind = Behind::computation);
  /// The tensors that begin in these bytes were sent as they are.
  void note_sent(const Members& members, std::size_t begin, std::size_t end);
  /// An event of the primary, kept for the number-th of several sums.
  Event& event(std::size_t number);
  /// True if somebody wrote to the tensor of `replica`, from 1 on, since it was last brought up to date.
  bool was_written(std::size_t replica, std::size_t index) const;

  const std::vector<Bucket>& buckets() const { return buckets_; }
  /// The bucket of tensor `index`, and its number in it.
  std::pair<std::size_t, std::size_t> place_in_buckets(std::size_t index) const { return places_[index]; }
  /// Makes the memory for the replicas' gradients, zero in the gaps, unless it is there.
  void make_gradients();
  /// The gradient of tensor `index` on replica `replica`, from 1 on; and that replica's memory for all of them.
  const Tensor& gradient(std::size_t replica, std::size_t index) const {
    return copies_[replica - 1].gradient_tensors[index];
  }
  void* gradients(std::size_t replica) const { return copies_[replica - 1].gradients->pointer(); }

 private:
  struct Copy {
    Device device;
    Intrusive<Storage> buffer, gradients;
    std::vector<Tensor> tensors, gradient_tensors;
    std::vector<std::uint32_t> sent;      // version of the original that was last sent
    std::vector<std::uint32_t> received;  // version of the copy after that
  };
  bool is_stale(const Members& members, std::size_t index) const;
  void note_sent(const Members& members, std::size_t index);

  std::vector<Tensor> originals_;
  FlatLayout layout_;
  std::vector<Copy> copies_;  // of replicas 1, 2, …
  std::vector<Bucket> buckets_;
  std::vector<std::pair<std::size_t, std::size_t>> places_;
  std::vector<std::unique_ptr<Event>> events_;
};

/// A tensor of a module as a visit meets it: repeated where members share it.
struct VisitedTensor {
  const TensorBody* body;
  const char* data;
  /// Its number among the module's parameters, or buffers.
  std::size_t index;
};

/// All that is kept for one module on one list of devices. Graphs share it, so it outlives the wrapper if needed.
class ReplicaSet {
 public:
  /// The module's tensors lie on device_list[0]; they are flattened there.
  ReplicaSet(ModuleView module, std::vector<Device> device_list, std::size_t bucket_bytes);
  ~ReplicaSet();
  ReplicaSet(const ReplicaSet&) = delete;
  ReplicaSet& operator=(const ReplicaSet&) = delete;

  const std::vector<Device>& devices() const { return devices_; }
  FlatReplicas& parameters() { return parameters_; }
  FlatReplicas& buffers() { return buffers_; }
  /// The parameters' way from gradients to new values.
  const Intrusive<GradientExchange>& exchange() const { return exchange_; }
  const std::vector<VisitedTensor>& visited_parameters() const { return visited_parameters_; }
  const std::vector<VisitedTensor>& visited_buffers() const { return visited_buffers_; }
  /// Brings parameters and buffers of `members` up to date.
  void send_changes(const Members& members);
  /// The communicator of the members' devices, on a channel.
  Communicator& communicator(const Members& members, int channel = 0);

 private:
  std::vector<Device> devices_;
  FlatReplicas parameters_, buffers_;
  std::vector<VisitedTensor> visited_parameters_, visited_buffers_;
  Intrusive<GradientExchange> exchange_;
  struct Known {
    Members members;
    int channel;
    Communicator* communicator;
  };
  std::vector<Known> communicators_;
};

namespace detail {
/// Makes copies[i], a copy of `module`, its replica on devices[i].
void make_replicas(const ModuleView& module, const std::vector<ModuleView>& copies, const std::vector<Device>& devices,
                   bool detach);
}  // namespace detail

/// Copies of `module`, one on each device, distinct devices of which the first holds the module. The parameters of a
/// replica, and its buffers with gradient, are results of the module's: their gradients are summed, in the order of the
/// devices, into those of the module. With `detach`, and where no graph is built, they are plain copies. Replica 0
/// shares memory with the module; members that share a tensor share it in each replica. Throws PlacementError if a
/// tensor of the module is not on devices[0]. Source: torch.nn.parallel.replicate.
template <Module M>
requires std::copy_constructible<M> std::vector<M> replicate(const M& module, const std::vector<Device>& devices,
                                                             bool detach = false) {
  std::vector<M> replicas(devices.size(), module);
  const std::vector<ModuleView> views(replicas.begin(), replicas.end());
  detail::make_replicas(module, views, devices, detach);
  return replicas;
}

}  // namespace fanout
