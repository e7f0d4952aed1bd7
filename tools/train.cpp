// SPDX-License-Identifier: Apache-2.0
#include "tools/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "models/datasets/dataset.h"
#include "models/mlp.h"
#include "models/training.h"
#include "runtime/comm/link_check.h"
#include "runtime/device/error.h"
#include "runtime/nn/move.h"
#include "runtime/ops/shape.h"
#include "runtime/parallel/data_parallel.h"
#include "runtime/parallel/placement.h"
#include "runtime/tensor/random.h"
#include "tools/bench/stages.h"
#include "tools/optimizer_choice.h"
#include "tools/progress.h"

namespace fanout::tools {
namespace {

using models::Mlp;

// The options' devices; what does not fit the machine is a wrong call.
std::vector<Device> chosen_devices(const TrainOptions& options) {
  try {
    const std::vector<Device> devices = devices_of_ids(options.devices.value_or(std::vector<int>{}));
    if (options.output_device) require_device(Device(*options.output_device));
    return devices;
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
}

Device module_device(const TrainOptions& options, Device primary) {
  if (options.module_device.empty()) return primary;
  const Device device = Device::parse(options.module_device);
  try {
    if (!device.is_host()) require_device(device);
  } catch (const InvalidArgument& error) {
    throw UsageError(fmt::format("--module-device: {}", error.what()));
  }
  return device;
}

std::vector<std::int64_t> widths(const models::Dataset& data, const TrainOptions& options) {
  std::vector<std::int64_t> all{data.features};
  all.insert(all.end(), options.hidden.begin(), options.hidden.end());
  all.push_back(data.classes);
  return all;
}

// Records the stages of steps that lie in one epoch, the last, behind those that differ.
class Profiler {
 public:
  Profiler(const std::vector<Device>& devices, std::int64_t epochs, std::int64_t steps_per_epoch) : devices_(devices) {
    constexpr std::int64_t kMostSteps = 100;
    const std::int64_t before = epochs > 1 ? 1 : steps_per_epoch / 3;
    first_ = (epochs - 1) * steps_per_epoch + before;
    last_ = std::min(first_ + kMostSteps, epochs * steps_per_epoch - 2);
    if (last_ <= first_) {
      throw UsageError(
          fmt::format("--profile needs 4 steps an epoch; there are {}: take a smaller batch", steps_per_epoch));
    }
  }

  /// Called while the step behind `step` is on its way.
  void step_reported(std::int64_t step) {
    if (step == first_) {
      recorder_.emplace(devices_);
      recorder_->start();
    } else if (step == last_ && recorder_) {
      profile_ = bench::profile_of(recorder_->stop(), last_ - first_);
      recorder_.reset();
    }
  }
  void show(Reporter& reporter, const std::vector<std::int64_t>& net, const TrainOptions& options) const {
    for (const std::string& line : bench::profile_lines(profile_)) reporter.say(line);
    for (const StageTimes& times : profile_.devices) {
      nlohmann::ordered_json stages{{"device", times.device.name()}};
      for (std::size_t stage = 0; stage < kStages; ++stage) {
        stages[std::string(name(static_cast<Stage>(stage))) + "_us"] = times.seconds[stage] * 1e6;
      }
      stages["total_us"] = times.total() * 1e6;
      reporter.say("", nlohmann::ordered_json{{"profile", stages}}.dump());
    }
    const std::string verdict = bench::measured_verdict(profile_, net, options.batch_size, options.optimizer, devices_);
    reporter.say(verdict, nlohmann::ordered_json{{"verdict", verdict}}.dump());
  }

 private:
  std::vector<Device> devices_;
  std::int64_t first_ = 0, last_ = 0;
  std::optional<StageRecorder> recorder_;
  bench::StepProfile profile_;
};

void run(const models::Dataset& data, const models::Trainee& trainee, const std::vector<Device>& devices,
         const TrainOptions& options, Reporter& reporter) {
  const std::int64_t steps_per_epoch =
      (static_cast<std::int64_t>(data.train.labels.size()) + options.batch_size - 1) / options.batch_size;
  std::optional<Profiler> profiler;
  if (options.profile) profiler.emplace(devices, options.epochs, steps_per_epoch);
  reporter.begin(options.epochs, steps_per_epoch);
  try {
    models::run_training(data, trainee, {options.epochs, options.batch_size, options.seed},
                         {[&](const models::StepReport& step) {
                            reporter.step(step);
                            if (profiler) profiler->step_reported(step.step);
                          },
                          [&](const models::EpochReport& epoch) { reporter.epoch(epoch); }});
  } catch (const std::exception& error) {
    reporter.failed(error.what());
    throw;
  }
  if (profiler) profiler->show(reporter, widths(data, options), options);
}

}  // namespace

void train(const TrainOptions& options) {
  const std::vector<Device> devices = chosen_devices(options);
  if (options.parallel == Parallelism::none && options.devices && devices.size() > 1) {
    throw UsageError(
        fmt::format("--parallel none trains on one device; --devices lists {} ({})", devices.size(), names(devices)));
  }
  const Device home = module_device(options, devices[0]);
  const models::Dataset data = models::load_dataset(options.data, options.seed);

  manual_seed(options.seed);
  Mlp model(widths(data, options));
  naming_failures([&] { return fmt::format("moving the module to {}: ", home.name()); }, [&] { to(model, home); });
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(
      options.optimizer, parameters(model), {.learning_rate = options.learning_rate, .momentum = options.momentum});

  if (options.parallel == Parallelism::none) {
    const Device device = home.is_host() ? devices[0] : home;
    Reporter reporter(options, data, {device});
    run(data,
        {model, *optimizer,
         [&](const Tensor& images) {
           const StageScope stage(device, Stage::forward);
           return model(to(images, device));
         },
         device},
        {device}, options, reporter);
    return;
  }
  std::vector<int> ids;
  for (const Device device : devices) ids.push_back(device.index());
  DataParallelOptions parallel_options;
  if (options.output_device) parallel_options.output_device = Device(*options.output_device);
  comm::check_links(devices);
  DataParallel parallel(model, ids, parallel_options);
  const Device output_device = parallel_options.output_device.value_or(devices[0]);
  Reporter reporter(options, data, devices);
  run(data, {model, *optimizer, [&](const Tensor& images) { return parallel(images); }, output_device}, devices,
      options, reporter);
}

}  // namespace fanout::tools
