// SPDX-License-Identifier: Apache-2.0
// DataParallel: one module on several devices in one process, as torch.nn.DataParallel does it.
#pragma once

#include <concepts>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/nn/fields.h"
#include "runtime/parallel/balance.h"
#include "runtime/parallel/data_parallel_core.h"

namespace fanout {

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
/// A replica is a copy of the struct, made for each forward, with its tensors on the replica's device. The primary's
/// replica is the module itself, so what forward writes to its buffers stays; what other replicas write to theirs is
/// lost, unless a buffer policy says otherwise. One forward at a time. Source of the behaviour: torch.nn.DataParallel.
template <Module M>
class DataParallel {
 public:
  static_assert(std::copy_constructible<M>, "a module must be copyable: its replicas are copies");

  /// Without `device_ids` all visible devices are used. Warns where one of them has far less memory, or
  /// multiprocessors, than another. Throws NoDeviceError, InvalidArgument for bad ids and options, PlacementError.
  explicit DataParallel(M& module, const std::vector<int>& device_ids = {}, const DataParallelOptions& options = {})
      : DataParallel(Quietly(), module, device_ids, options) {
    warn_if_unbalanced(devices());
  }

  const std::vector<Device>& devices() const { return core_.devices(); }
  M& module() { return *module_; }
  /// The module's own members, under the module's own names: to(parallel, ...), train(parallel), state_dict(parallel).
  void visit(Visitor& member) { module_->visit(member); }

  /// Calls the module on the pieces of `arguments`. Tensors in them are split along `dim`, at any depth of what
  /// TensorVisitor walks through; unsplit(x) and everything else goes whole to every replica. Without arguments the
  /// primary alone is called, without tensors to split every device. The result has the type that the module returns;
  /// its tensors are joined along `dim` on the output device, numbers to a vector; what is no tensor must be equal in
  /// all replicas. With one device the output is not joined, only moved.
  ///
  /// Throws PlacementError if a parameter or buffer is not on the primary, InvalidArgument where sizes do not fit, and
  /// what the lowest replica throws, with its number, device and inputs before the text.
  template <class... Arguments>
  auto operator()(const Arguments&... arguments) {
    auto [results, origins] = run(arguments...);
    std::vector<TensorWalk> walks;
    for (auto& result : results) walks.emplace_back([&result](TensorVisitor& visitor) { visitor.walk(result); });
    core_.join(walks, origins);
    return std::move(results.front());
  }

  /// The same, but the outputs stay on their devices: a result for each replica that ran, in the order of device_ids.
  template <class... Arguments>
  auto apart(const Arguments&... arguments) {
    return run(arguments...).first;
  }

  /// The pieces of `value` for the replicas of a forward with the same rows: labels for the outputs of apart().
  template <class T>
  std::vector<T> scatter(const T& value) const {
    T whole = value;
    const auto [inputs, count] = core_.split([&](TensorVisitor& visitor) { visitor.walk(whole); });
    return detail::pieces_of(value, inputs, count);
  }

  /// The mean over all rows of the last forward, on the primary, from a mean (shape []) for each replica that had rows:
  /// uneven chunks count by their rows. Differentiable.
  Tensor mean_over_rows(const std::vector<Tensor>& means) const { return core_.mean_over_rows(means); }

  /// Rows of each device of device_ids in the last forward; 0 for an idle one.
  const std::vector<std::int64_t>& piece_sizes() const { return core_.piece_sizes(); }
  /// What replicas threw in the last forward, the lowest first; the operator rethrows the first of them.
  const std::vector<ReplicaFailure>& failures() const { return core_.failures(); }

 private:
  struct Quietly {};
  DataParallel(Quietly, M& module, const std::vector<int>& device_ids, const DataParallelOptions& options)
      : module_(&module), core_(module, device_ids, options), copies_(core_.devices().size()) {
    require_all_visited(module);
  }
  template <Module Of, class... Arguments>
  friend auto data_parallel(Of& module, const std::vector<int>& device_ids, const DataParallelOptions& options,
                            const Arguments&... arguments);

  // Results of the replicas that ran, and who these are.
  template <class... Arguments>
  auto run(const Arguments&... arguments) {
    using Result = std::remove_cvref_t<std::invoke_result_t<M&, const Arguments&...>>;
    using Values = std::tuple<std::decay_t<const Arguments&>...>;
    Values whole(arguments...);
    detail::ReplicatedForward forward = core_.begin(
        *module_, [&](TensorVisitor& visitor) { visitor.walk(whole); }, sizeof...(Arguments) > 0);
    const std::vector<detail::RunningReplica>& replicas = forward.replicas();
    for (std::size_t i = 0; i < replicas.size(); ++i) {
      if (replicas[i].number == 0) continue;
      copies_[replicas[i].number].emplace(*module_);
      forward.bind(*copies_[replicas[i].number], i);
    }
    std::vector<std::optional<Result>> results(replicas.size());
    forward.run([&](std::size_t i) {
      Values pieces = whole;
      forward.place_inputs(i, [&](TensorVisitor& visitor) { visitor.walk(pieces); });
      M& module = replicas[i].number == 0 ? *module_ : *copies_[replicas[i].number];
      results[i].emplace(std::apply(module, std::as_const(pieces)));
    });
    std::vector<Result> all;
    for (std::optional<Result>& result : results) all.push_back(*std::move(result));
    return std::pair(std::move(all), forward.origins());
  }

  M* module_;
  detail::DataParallelCore core_;
  std::vector<std::optional<M>> copies_;  // by position in device_ids; the first stays empty
};

/// One forward of `module` on `device_ids`, without a DataParallel that stays and without its warning. Source:
/// torch.nn.parallel.data_parallel.
template <Module M, class... Arguments>
auto data_parallel(M& module, const std::vector<int>& device_ids, const DataParallelOptions& options,
                   const Arguments&... arguments) {
  using Once = DataParallel<M>;
  return Once(typename Once::Quietly(), module, device_ids, options)(arguments...);
}

}  // namespace fanout
