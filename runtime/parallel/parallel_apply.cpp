// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/parallel_apply.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <typeinfo>

#include "runtime/autograd/grad_mode.h"
#include "runtime/device/error.h"
#include "runtime/device/workers.h"

namespace fanout {
namespace {

constexpr int kTrialSteps = 8;             // of each way
constexpr int kStepsBetweenTrials = 1000;  // then both are tried again
constexpr double kWorthTrying = 40e-6;     // a shorter step cannot gain from a hand-off
constexpr double kMargin = 1.05;

// Rethrows `error` as exactly T with the place before its text, if it is exactly a T.
template <class T>
void rethrow_as(const std::exception& error, const std::string& place) {
  if (typeid(error) != typeid(T)) return;
  const std::string text = place + error.what();
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
void rethrow_as_any(const std::exception& error, const std::string& place) {
  (rethrow_as<Types>(error, place), ...);
}

[[noreturn]] void rethrow_with_place(const std::exception_ptr& failure, std::size_t replica, Device device) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    rethrow_as_any<Error, InvalidArgument, PlacementError, NoDeviceError, CudaError, CublasError, NcclError,
                   std::runtime_error, std::logic_error, std::invalid_argument, std::out_of_range, std::domain_error,
                   std::length_error, std::range_error, std::overflow_error, std::underflow_error>(
        error, fmt::format("replica {} on {}: ", replica, device.name()));
    throw;
  }
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

void parallel_apply(const std::vector<Device>& devices, std::size_t replicas, int lanes,
                    const std::function<void(std::size_t)>& run) {
  std::exception_ptr failures[kMaxDevices];
  const bool with_graph = grad_enabled();
  Workers::of_process().run(lanes, [&](int lane, int used) {
    const GradMode mode(with_graph);
    for (auto replica = static_cast<std::size_t>(lane); replica < replicas; replica += static_cast<std::size_t>(used)) {
      try {
        const DeviceGuard guard(devices[replica]);
        run(replica);
      } catch (...) {
        failures[replica] = std::current_exception();
      }
    }
  });
  for (std::size_t replica = 0; replica < replicas; ++replica) {
    if (failures[replica]) rethrow_with_place(failures[replica], replica, devices[replica]);
  }
}

}  // namespace fanout
