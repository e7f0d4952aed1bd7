// SPDX-License-Identifier: Apache-2.0
// What of DataParallel does not depend on the module's type.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/parallel/buffer_policy.h"
#include "runtime/parallel/gather.h"
#include "runtime/parallel/parallel_apply.h"
#include "runtime/parallel/replica_graph.h"
#include "runtime/parallel/scatter.h"
#include "runtime/trace/stages.h"

namespace fanout {

struct DataParallelOptions {
  /// Where outputs are gathered: a device, or the host. The primary by default.
  std::optional<Device> output_device;
  /// Dimension along which inputs are split and outputs are joined; negative ones count from the back.
  int dim = 0;
  /// Rows for each device, in the order of device_ids; they must sum to the batch. A device with 0 rows is idle.
  /// Without these and `weights`: chunk_sizes' rule.
  std::vector<std::int64_t> chunk_sizes;
  /// Or shares for each device, rounded as weighted_chunk_sizes does.
  std::vector<double> weights;
  /// What becomes of the replicas' buffers, by name or its last parts: {{"running_mean", BufferPolicy::mean}}.
  std::map<std::string, BufferPolicy> buffer_policies;
  /// Refuse at construction a module that has a tensor on a wrong GPU; false leaves it to the first forward, as torch
  /// does.
  bool check_at_construction = true;
  ParallelApply parallel_apply = ParallelApply::measure;
  /// Gradients are reduced in buckets of at least this size, the last ones of the module first.
  std::size_t bucket_bytes = std::size_t{1} << 20;
};

namespace detail {

class ReplicatedForward;

class DataParallelCore {
 public:
  DataParallelCore(const ModuleView& module, const std::vector<int>& device_ids, const DataParallelOptions& options);

  const std::vector<Device>& devices() const { return devices_; }
  Device output_device() const { return options_.output_device.value_or(devices_[0]); }
  const std::vector<std::int64_t>& piece_sizes() const { return rows_; }
  const std::vector<ReplicaFailure>& failures() const { return failures_; }

  /// Checks the placement, renews what is kept if the module's tensors are others than before, splits the tensors of
  /// `inputs` and brings the replicas that run up to date.
  ReplicatedForward begin(const ModuleView& module, const TensorWalk& inputs, bool has_arguments);
  /// Joins the outputs, one a running replica, in the place of the first.
  void join(const std::vector<TensorWalk>& outputs, const std::vector<OutputOrigin>& origins) const;
  /// The tensors of a value for the replicas that a forward with it would use, and the number of these.
  std::pair<ScatteredInputs, std::size_t> split(const TensorWalk& walk) const;
  Tensor mean_over_rows(const std::vector<Tensor>& means) const;

 private:
  friend class ReplicatedForward;
  // Who runs, with how many rows.
  struct Plan {
    std::int64_t split_rows;               // what it was made for: -1 without a tensor to split
    bool has_arguments;                    // and this
    std::vector<std::int64_t> rows;        // by device
    std::vector<RunningReplica> running;   // those that run
    std::shared_ptr<const Pieces> pieces;  // for those
    std::int64_t most_rows;                // of one of them
  };

  void check_options() const;
  void check(const ModuleView& module);
  void renew(const ModuleView& module);
  std::vector<std::int64_t> rows_per_device(std::int64_t rows, const std::function<std::string()>& path) const;
  std::shared_ptr<const Plan> plan(const std::vector<ScatteredInputs::Input>& inputs, const TensorWalk& walk,
                                   bool has_arguments) const;

  std::vector<Device> devices_;
  DataParallelOptions options_;
  std::shared_ptr<LaneChooser> lanes_;
  std::shared_ptr<ReplicaSet> set_;
  std::vector<BufferPolicy> policies_;        // by buffer; empty where all are the primary's
  mutable std::shared_ptr<const Plan> plan_;  // the last one; most steps have the same rows
  std::vector<std::int64_t> rows_;
  std::vector<ReplicaFailure> failures_;
};

/// One forward: inputs in pieces, replicas up to date, the graph in place.
class ReplicatedForward {
 public:
  /// Those that run; the others below are given a position in this list.
  const std::vector<RunningReplica>& replicas() const { return plan_->running; }
  /// Points the tensors of `copy`, a copy of the module, at replica i's.
  void bind(const ModuleView& copy, std::size_t i) const { graph_->bind(copy, i + idle_ranks_); }
  /// Puts replica i's pieces in the places of the inputs' tensors; called on the replica's lane.
  void place_inputs(std::size_t i, const TensorWalk& walk) const {
    const StageScope stage(replicas()[i].device, Stage::scatter);
    inputs_.place(i, walk);
  }
  /// Calls replica(i) for all i. Throws the lowest failure once all have ended.
  void run(const std::function<void(std::size_t)>& replica);
  std::vector<OutputOrigin> origins() const;

 private:
  friend class DataParallelCore;
  struct PolicyBuffer {
    std::size_t index;
    std::uint32_t version;
    Tensor before;
  };
  void note_buffers();
  void combine_buffers() const;

  DataParallelCore* core_ = nullptr;
  std::shared_ptr<const DataParallelCore::Plan> plan_;
  ScatteredInputs inputs_;
  int lanes_ = 1;
  std::size_t idle_ranks_ = 0;         // 1 where the primary takes part in the collectives alone
  std::optional<ReplicaGraph> graph_;  // none where the module itself is all that runs
  std::vector<PolicyBuffer> policy_buffers_;
};

}  // namespace detail
}  // namespace fanout
