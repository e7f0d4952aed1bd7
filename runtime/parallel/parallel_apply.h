// SPDX-License-Identifier: Apache-2.0
// Runs the replicas, in lanes beside each other or one after another, and says whose failure it was.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/parallel/structure.h"

namespace fanout {

/// How replicas are run. `measure` tries both for a few steps and keeps the faster; the results are the same to the
/// bit.
enum class ParallelApply { measure, inline_, workers };

/// What a replica threw.
struct ReplicaFailure {
  /// Its position in device_ids.
  std::size_t replica;
  Device device;
  /// "replica 1 on cuda:2 (input f64 [3, 6]): row 7"
  std::string text;
  std::exception_ptr error;
};

namespace detail {

/// Chooses the number of lanes for steps of one shape by measuring them.
class LaneChooser {
 public:
  LaneChooser(ParallelApply mode, int lanes) : mode_(mode), lanes_(lanes) {}

  /// Lanes for the next step, whose largest chunk has `rows` rows, which uses `replicas` replicas, and which builds a
  /// graph for backward or not.
  int begin_step(std::int64_t rows, int replicas, bool with_graph);
  /// Adds `seconds` of work to the step that begin_step began.
  void add(double seconds) { current_seconds_ += seconds; }

 private:
  struct Trial {
    std::int64_t rows = 0;
    int replicas = 0;
    bool with_graph = false;
    int steps = 0;
    double best_inline = 1e300, best_workers = 1e300;
    bool ran_on_workers = false;
  };
  static bool on_workers(const Trial& trial);

  ParallelApply mode_;
  int lanes_;
  std::vector<Trial> trials_;
  Trial* current_ = nullptr;
  double current_seconds_ = 0;
};

/// A replica that runs: its position in device_ids, and its device.
struct RunningReplica {
  std::size_t number;
  Device device;
};

/// Calls run(i) for each i-th of `replicas`, on its device, spread over `lanes` lanes, those on one device in order;
/// the caller's grad and autocast modes hold in all of them. All are tried; the failures come back in order.
/// `inputs_text` is for their texts.
std::vector<ReplicaFailure> run_replicas(const std::vector<RunningReplica>& replicas, int lanes,
                                         const std::function<void(std::size_t)>& run,
                                         const std::function<std::string(std::size_t)>& inputs_text);

/// Rethrows the first failure with its own type; its text says which replica it was, and which others failed too. A
/// type that this cannot be added to is rethrown as it is.
[[noreturn]] void throw_first(const std::vector<ReplicaFailure>& failures);

/// Devices for parallel_apply: those that were given, or for each walk the device of its first tensor that is on one,
/// or the current one.
std::vector<RunningReplica> places_for(std::size_t modules, const std::vector<TensorWalk>& inputs,
                                       const std::vector<Device>& devices);

/// " (input f64 [3, 6])", or nothing without tensors.
std::string text_of_inputs(const TensorWalk& walk);

template <class T>
inline constexpr bool kIsTuple = false;
template <class... T>
inline constexpr bool kIsTuple<std::tuple<T...>> = true;

template <class M, class Input>
decltype(auto) call(M& module, const Input& input) {
  if constexpr (kIsTuple<Input>) {
    return std::apply(module, input);
  } else {
    return module(input);
  }
}

}  // namespace detail

/// Calls modules[i] with inputs[i] for all i, each with its device as the current one, beside each other; returns the
/// results in that order. A tuple is a list of arguments, anything else one argument. Without `devices`, each uses the
/// device of the first tensor in its input, or else the current one. All are run; then the failure of the lowest is
/// rethrown with its own type and "replica 1 on cuda:2 (input f64 [3, 6]): " before its text. Throws InvalidArgument
/// unless there are as many inputs, and devices, as modules. Source: torch.nn.parallel.parallel_apply.
template <class M, class Input>
auto parallel_apply(std::vector<M>& modules, const std::vector<Input>& inputs,
                    const std::vector<Device>& devices = {}) {
  using Result = std::remove_cvref_t<decltype(detail::call(modules[0], inputs[0]))>;
  std::vector<Input> arguments = inputs;
  std::vector<TensorWalk> walks;
  for (Input& argument : arguments) {
    walks.emplace_back([&argument](TensorVisitor& visitor) { visitor.walk(argument); });
  }
  const std::vector<detail::RunningReplica> places = detail::places_for(modules.size(), walks, devices);
  std::vector<std::optional<Result>> results(modules.size());
  const std::vector<ReplicaFailure> failures = detail::run_replicas(
      places, static_cast<int>(places.size()),
      [&](std::size_t i) { results[i].emplace(detail::call(modules[i], std::as_const(arguments[i]))); },
      [&](std::size_t i) { return detail::text_of_inputs(walks[i]); });
  if (!failures.empty()) detail::throw_first(failures);
  std::vector<Result> all;
  for (std::optional<Result>& result : results) all.push_back(*std::move(result));
  return all;
}

}  // namespace fanout
