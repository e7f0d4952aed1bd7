// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/parallel_apply.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <typeinfo>

#include "runtime/autograd/autocast.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/device/error.h"
#include "runtime/device/workers.h"
#include "runtime/parallel/scatter.h"
#include "runtime/trace/stages.h"

namespace fanout::detail {
namespace {

constexpr int kTrialSteps = 8;             // of each way
constexpr int kStepsBetweenTrials = 1000;  // then both are tried again
constexpr double kWorthTrying = 40e-6;     // a shorter step cannot gain from a hand-off
constexpr double kMargin = 1.05;

// Throws exactly a T with `text`, if `error` is exactly a T.
template <class T>
void rethrow_as(const std::exception& error, const std::string& text) {
  if (typeid(error) != typeid(T)) return;
  if constexpr (requires(const T& e) {
                  e.code();
                  T(e.code(), text);
                }) {
    throw T(static_cast<const T&>(error).code(), text);
  } else {
    throw T(text);
  }
}

template <class... Types>
void rethrow_as_any(const std::exception& error, const std::string& text) {
  (rethrow_as<Types>(error, text), ...);
}

// What `error` says, and a way out where a replica alone can meet the mistake.
std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const PlacementError& misplaced) {
    return std::string(misplaced.what()) +
           "; a tensor that a module keeps must be a Buffer or Parameter that its visit names, or come as an argument";
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

std::string others_too(const std::vector<ReplicaFailure>& failures) {
  if (failures.size() == 1) return {};
  std::string numbers;
  for (std::size_t i = 1; i < failures.size(); ++i) {
    numbers += fmt::format("{}{}", i == 1 ? "" : ", ", failures[i].replica);
  }
  return fmt::format(" ({} {} failed too)", failures.size() == 2 ? "replica" : "replicas", numbers);
}

}  // namespace

bool LaneChooser::on_workers(const Trial& trial) {
  const int step = trial.steps % kStepsBetweenTrials;
  if (step < kTrialSteps) return false;
  if (trial.best_inline < kWorthTrying) return false;
  if (step < 2 * kTrialSteps) return true;
  return trial.best_workers * kMargin < trial.best_inline;
}

int LaneChooser::begin_step(std::int64_t rows, int replicas, bool with_graph) {
  if (mode_ != ParallelApply::measure || lanes_ == 1)
    return mode_ == ParallelApply::inline_ ? 1 : std::min(lanes_, replicas);
  if (current_ != nullptr && current_seconds_ > 0) {
    double& best = current_->ran_on_workers ? current_->best_workers : current_->best_inline;
    best = std::min(best, current_seconds_);
    ++current_->steps;
    if (current_->steps % kStepsBetweenTrials == 0) current_->best_inline = current_->best_workers = 1e300;
  }
  current_seconds_ = 0;
  const auto same = [&](const Trial& trial) {
    return trial.rows == rows && trial.replicas == replicas && trial.with_graph == with_graph;
  };
  auto found = std::find_if(trials_.begin(), trials_.end(), same);
  if (found == trials_.end()) {
    if (trials_.size() == 16) trials_.clear();  // shapes that never repeat are not worth remembering
    found = trials_.insert(trials_.end(), {rows, replicas, with_graph});
  }
  current_ = &*found;
  current_->ran_on_workers = on_workers(*current_);
  return current_->ran_on_workers ? std::min(lanes_, replicas) : 1;
}

namespace {

// A number that is the device's own, counted by first appearance: a device serves one lane at a time.
std::size_t turn_of(const std::vector<RunningReplica>& replicas, std::size_t i) {
  std::size_t turn = 0;
  for (std::size_t j = 0; replicas[j].device != replicas[i].device; ++j) {
    const auto first = std::find_if(replicas.begin(), replicas.end(),
                                    [&](const RunningReplica& other) { return other.device == replicas[j].device; });
    if (first == replicas.begin() + static_cast<std::ptrdiff_t>(j)) ++turn;
  }
  return turn;
}

}  // namespace

std::vector<ReplicaFailure> run_replicas(const std::vector<RunningReplica>& replicas, int lanes,
                                         const std::function<void(std::size_t)>& run,
                                         const std::function<std::string(std::size_t)>& inputs_text) {
  std::vector<std::exception_ptr> errors;  // by replica, once there is one
  std::mutex errors_lock;
  const bool with_graph = grad_enabled();
  const std::optional<DType> autocast = autocast_dtype();
  Workers::of_process().run(lanes, [&](int lane, int used) {
    const GradMode mode(with_graph);
    const ReplicaScope in_replica;
    const Autocast carried(autocast.value_or(DType::bf16), autocast.has_value());
    for (std::size_t i = 0; i < replicas.size(); ++i) {
      if (turn_of(replicas, i) % static_cast<std::size_t>(used) != static_cast<std::size_t>(lane)) continue;
      try {
        const DeviceGuard guard(replicas[i].device);
        const StageScope stage(replicas[i].device, Stage::forward);
        run(i);
      } catch (...) {
        const std::lock_guard lock(errors_lock);
        errors.resize(replicas.size());
        errors[i] = std::current_exception();
      }
    }
  });
  std::vector<ReplicaFailure> failures;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (!errors[i]) continue;
    const auto [number, device] = replicas[i];
    failures.push_back(
        {number, device,
         fmt::format("replica {} on {}{}: {}", number, device.name(), inputs_text(i), message_of(errors[i])),
         errors[i]});
  }
  return failures;
}

void throw_first(const std::vector<ReplicaFailure>& failures) {
  const std::string text = failures.front().text + others_too(failures);
  try {
    std::rethrow_exception(failures.front().error);
  } catch (const std::exception& error) {
    rethrow_as_any<Error, InvalidArgument, PlacementError, NoDeviceError, CudaError, CublasError, NcclError,
                   std::runtime_error, std::logic_error, std::invalid_argument, std::out_of_range, std::domain_error,
                   std::length_error, std::range_error, std::overflow_error, std::underflow_error>(error, text);
    throw;
  }
}

std::string text_of_inputs(const TensorWalk& walk) {
  std::vector<std::pair<DType, Shape>> inputs;
  for (const auto& [tensor, whole] : ScatteredInputs::collect(walk)) {
    if (tensor.defined()) inputs.emplace_back(tensor.dtype(), tensor.shape());
  }
  return text_of_inputs(inputs);
}

std::vector<RunningReplica> places_for(std::size_t modules, const std::vector<TensorWalk>& inputs,
                                       const std::vector<Device>& devices) {
  if (inputs.size() != modules || (!devices.empty() && devices.size() != modules)) {
    throw InvalidArgument(
        fmt::format("parallel_apply: {} modules, {} inputs, {} devices; there must be one of each for every module "
                    "(devices may be left out)",
                    modules, inputs.size(), devices.size()));
  }
  int current = 0;
  if (devices.empty()) FANOUT_CHECK(cudaGetDevice(&current));
  std::vector<RunningReplica> places;
  for (std::size_t i = 0; i < modules; ++i) {
    Device device = devices.empty() ? Device(current) : devices[i];
    if (devices.empty()) {
      const auto found = ScatteredInputs::collect(inputs[i]);
      const auto on_device = std::find_if(found.begin(), found.end(), [](const auto& input) {
        return input.tensor.defined() && !input.tensor.device().is_host();
      });
      if (on_device != found.end()) device = on_device->tensor.device();
    }
    require_device(device);
    places.push_back({i, device});
  }
  return places;
}

}  // namespace fanout::detail
