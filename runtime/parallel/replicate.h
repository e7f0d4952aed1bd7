// SPDX-License-Identifier: Apache-2.0
// The replicas' memory: flat copies of the primary's parameters and buffers on the other devices, kept between steps
// and sent again only when something was written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/tensor/flat.h"

namespace fanout {

/// A contiguous range of gradients that is reduced by one call, in the same order on every rank.
struct Bucket {
  std::size_t begin_bytes = 0, end_bytes = 0;
  DType dtype = DType::f32;
  /// Numbers of its parameters, by growing offset.
  std::vector<std::size_t> parameters;
};

/// Cuts a layout into buckets of whole parameters, each closed once it holds `bucket_bytes`; one dtype a bucket.
std::vector<Bucket> cut_into_buckets(const FlatLayout& layout, const std::vector<Tensor>& parameters,
                                     std::size_t bucket_bytes);

/// Tensors of the primary, and their copies on the other devices. Replica 0 is the primary itself.
class FlatReplicas {
 public:
  FlatReplicas() = default;
  /// `originals` lie on devices[0] as a FlatLayout of theirs says (as `to` leaves them).
  FlatReplicas(std::vector<Tensor> originals, const std::vector<Device>& devices);

  const FlatLayout& layout() const { return layout_; }
  const std::vector<Tensor>& originals() const { return originals_; }
  /// Tensor `index` on replica `replica`, outside any graph.
  const Tensor& tensor(std::size_t replica, std::size_t index) const {
    return replica == 0 ? originals_[index] : copies_[replica - 1].tensors[index];
  }
  /// Brings the first `replicas` replicas up to date by broadcasts of the ranges that were written; returns the bytes
  /// sent.
  std::size_t send_changes(std::size_t replicas, Communicator& communicator);

 private:
  struct Copy {
    Intrusive<Storage> buffer;
    std::vector<Tensor> tensors;
    std::vector<std::uint32_t> sent;
  };
  bool is_stale(std::size_t replicas, std::size_t index) const;
  void send(std::size_t replicas, std::size_t begin, std::size_t end, Communicator& communicator);

  std::vector<Tensor> originals_;
  FlatLayout layout_;
  std::vector<Copy> copies_;  // of replicas 1, 2, …
};

/// All that DataParallel keeps for one module on one list of devices. Graphs share it, so it outlives the wrapper if
/// needed.
struct ReplicaSet {
  ReplicaSet(std::vector<Tensor> parameter_list, std::vector<Tensor> buffer_list, std::vector<Device> device_list,
             std::size_t bucket_bytes);

  std::vector<Device> devices;
  FlatReplicas parameters, buffers;
  std::vector<Bucket> buckets;
  /// For each parameter: its bucket, and its number in it.
  std::vector<std::pair<std::size_t, std::size_t>> place_in_buckets;
  /// Replica r's flat gradients, for r from 1; in the layout of the parameters, zero in the gaps.
  std::vector<Intrusive<Storage>> gradients;
  std::vector<std::vector<Tensor>> gradient_tensors;

  /// The communicator of the first `replicas` devices.
  Communicator& communicator(std::size_t replicas) const;
};

}  // namespace fanout
