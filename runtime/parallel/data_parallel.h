// SPDX-License-Identifier: Apache-2.0
// DataParallel: one module on several devices in one process, as torch.nn.DataParallel does it.
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/nn/fields.h"
#include "runtime/parallel/gradient_bucket.h"
#include "runtime/parallel/parallel_apply.h"
#include "runtime/parallel/replicate.h"
#include "runtime/parallel/scatter.h"
#include "runtime/parallel/structure.h"

namespace fanout {

struct DataParallelOptions {
  /// Where outputs are gathered; the primary by default.
  std::optional<Device> output_device;
  /// Dimension along which inputs are split and outputs are joined; negative ones count from the back.
  int dim = 0;
  /// Refuse at construction a module that has a tensor on a wrong GPU; false leaves it to the first forward, as torch
  /// does.
  bool check_at_construction = true;
  ParallelApply parallel_apply = ParallelApply::measure;
  /// Gradients are reduced in buckets of at least this size, the last ones of the module first.
  std::size_t bucket_bytes = std::size_t{1} << 20;
};

namespace detail {

/// One forward: inputs in pieces, replicas up to date, the graph's buckets in place.
class ReplicatedForward;

/// What of DataParallel does not depend on the module's type.
class DataParallelCore {
 public:
  DataParallelCore(const ModuleView& module, const std::vector<int>& device_ids, const DataParallelOptions& options);

  const std::vector<Device>& devices() const { return devices_; }
  Device output_device() const { return options_.output_device.value_or(devices_[0]); }
  int dim() const { return options_.dim; }

  /// Checks the placement, renews what is kept if the module's tensors are others than before, splits `inputs` and
  /// brings the replicas that get a piece up to date.
  ReplicatedForward begin(const ModuleView& module, const std::vector<Tensor>& inputs);
  /// Joins the replicas' tensors, [replica][number]; the numbers of tensors must agree.
  std::vector<Tensor> gather_outputs(const std::vector<std::vector<Tensor>>& outputs) const;

 private:
  friend class ReplicatedForward;
  void check(const ModuleView& module);
  void renew(const ModuleView& module);

  std::vector<Device> devices_;
  DataParallelOptions options_;
  std::shared_ptr<LaneChooser> lanes_;
  std::shared_ptr<ReplicaSet> set_;
  // In visiting order, repetitions of tied tensors included: the tensors as they were when `set_` was made.
  struct Visited {
    const TensorBody* body;
    const char* data;
    std::size_t index;
  };
  std::vector<Visited> parameters_, buffers_;
};

class ReplicatedForward {
 public:
  ReplicatedForward(ReplicatedForward&&) = default;
  ~ReplicatedForward();

  std::size_t replicas() const { return replicas_; }
  /// Input `index`'s piece for `replica`; called on the replica's lane.
  Tensor piece(std::size_t index, std::size_t replica) const { return inputs_[index].piece(replica); }
  /// Points the tensors of `copy`, a copy of the module, at replica `replica`'s.
  void bind(const ModuleView& copy, std::size_t replica);
  void run(const std::function<void(std::size_t)>& replica);

 private:
  friend class DataParallelCore;
  ReplicatedForward(DataParallelCore& core, std::size_t replicas) : core_(&core), replicas_(replicas) {}
  void make_buckets();

  DataParallelCore* core_;
  std::size_t replicas_;
  int lanes_ = 1;
  std::vector<Scatter> inputs_;
  std::vector<Intrusive<GradientBucket>> buckets_;
};

}  // namespace detail

/// Runs `module` on every device of `device_ids`: forward splits the inputs' rows over the devices, brings the replicas
/// up to date, runs them beside each other and joins their outputs; backward sums the gradients on the primary,
/// device_ids[0]. Refers to the module, which stays the place of all parameters: optimizers, checkpoints and evaluation
/// use it directly.
///
///   Mlp model;                                   // parameters start on the host
///   to(model, Device(0));
///   DataParallel parallel(model, {0, 1, 2, 3});
///   Tensor loss = cross_entropy(parallel(images), labels);
///   loss.backward();
///
/// A replica is a copy of the struct, made for each forward, with its tensors on the replica's device. Replica 0 is the
/// module itself, so what forward writes to its buffers stays; what other replicas write to theirs is overwritten. One
/// forward at a time. Source of the behaviour: torch.nn.DataParallel.
template <Module M>
class DataParallel {
 public:
  static_assert(std::copy_constructible<M>, "a module must be copyable: its replicas are copies");

  /// Without `device_ids` all visible devices are used. Throws NoDeviceError, InvalidArgument for bad ids,
  /// PlacementError.
  explicit DataParallel(M& module, const std::vector<int>& device_ids = {}, const DataParallelOptions& options = {})
      : module_(&module), core_(module, device_ids, options), copies_(core_.devices().size()) {
    require_all_visited(module);
  }

  const std::vector<Device>& devices() const { return core_.devices(); }
  M& module() { return *module_; }

  /// Calls the module on the pieces of `arguments`. Tensors in them are split along `dim`, also inside tuples, vectors,
  /// maps and optionals; everything else goes whole to every replica. The result has the type that the module returns;
  /// its tensors are joined along `dim` on the output device. Throws PlacementError if a parameter or buffer is not on
  /// the primary, InvalidArgument where sizes do not fit, and what a replica throws, with its number and device before
  /// the text.
  template <class... Arguments>
  auto operator()(const Arguments&... arguments) {
    using Result = std::remove_cvref_t<std::invoke_result_t<M&, const Arguments&...>>;
    std::tuple<Arguments...> whole(arguments...);
    std::vector<Tensor> inputs;
    visit_tensors(whole, [&](Tensor& tensor) { inputs.push_back(tensor); });

    detail::ReplicatedForward forward = core_.begin(*module_, inputs);
    for (std::size_t replica = 1; replica < forward.replicas(); ++replica) {
      copies_[replica].emplace(*module_);
      forward.bind(*copies_[replica], replica);
    }
    std::vector<std::optional<Result>> results(forward.replicas());
    forward.run([&](std::size_t replica) {
      std::tuple<Arguments...> pieces = whole;
      std::size_t index = 0;
      visit_tensors(pieces, [&](Tensor& tensor) { tensor = forward.piece(index++, replica); });
      M& module = replica == 0 ? *module_ : *copies_[replica];
      results[replica].emplace(std::apply(module, std::as_const(pieces)));
    });
    return join(results);
  }

 private:
  template <class Result>
  Result join(std::vector<std::optional<Result>>& results) {
    std::vector<std::vector<Tensor>> outputs(results.size());
    for (std::size_t replica = 0; replica < results.size(); ++replica) {
      visit_tensors(*results[replica], [&](Tensor& tensor) { outputs[replica].push_back(tensor); });
    }
    const std::vector<Tensor> joined = core_.gather_outputs(outputs);
    std::size_t index = 0;
    visit_tensors(*results[0], [&](Tensor& tensor) { tensor = joined[index++]; });
    return std::move(*results[0]);
  }

  M* module_;
  detail::DataParallelCore core_;
  std::vector<std::optional<M>> copies_;  // by replica; the first stays empty
};

}  // namespace fanout
