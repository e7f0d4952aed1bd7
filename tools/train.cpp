// SPDX-License-Identifier: Apache-2.0
#include "tools/train.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "models/datasets/dataset.h"
#include "models/mlp.h"
#include "models/training.h"
#include "runtime/comm/link_check.h"
#include "runtime/device/error.h"
#include "runtime/nn/move.h"
#include "runtime/ops/shape.h"
#include "runtime/optim/adam.h"
#include "runtime/optim/sgd.h"
#include "runtime/parallel/data_parallel.h"
#include "runtime/parallel/placement.h"
#include "runtime/tensor/random.h"
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

std::unique_ptr<Optimizer> make_optimizer(const Mlp& model, const TrainOptions& options) {
  std::vector<Tensor> trained = parameters(model);
  const double learning_rate = options.learning_rate;
  switch (options.optimizer) {
    case OptimizerKind::sgd: {
      const SgdOptions sgd{.learning_rate = learning_rate, .momentum = options.momentum};
      return std::make_unique<Sgd>(std::move(trained), sgd);
    }
    case OptimizerKind::adam:
      return std::make_unique<Adam>(std::move(trained), AdamOptions{.learning_rate = learning_rate});
    case OptimizerKind::adamw:
      break;
  }
  return std::make_unique<AdamW>(std::move(trained), AdamWOptions{.learning_rate = learning_rate});
}

std::vector<std::int64_t> widths(const models::Dataset& data, const TrainOptions& options) {
  std::vector<std::int64_t> all{data.features};
  all.insert(all.end(), options.hidden.begin(), options.hidden.end());
  all.push_back(data.classes);
  return all;
}

void run(const models::Dataset& data, const models::Trainee& trainee, const TrainOptions& options, Reporter& reporter) {
  const std::int64_t steps_per_epoch =
      (static_cast<std::int64_t>(data.train.labels.size()) + options.batch_size - 1) / options.batch_size;
  reporter.begin(options.epochs, steps_per_epoch);
  try {
    models::run_training(data, trainee, {options.epochs, options.batch_size, options.seed},
                         {[&](const models::StepReport& step) { reporter.step(step); },
                          [&](const models::EpochReport& epoch) { reporter.epoch(epoch); }});
  } catch (const std::exception& error) {
    reporter.failed(error.what());
    throw;
  }
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
  const std::unique_ptr<Optimizer> optimizer = make_optimizer(model, options);

  if (options.parallel == Parallelism::none) {
    const Device device = home.is_host() ? devices[0] : home;
    Reporter reporter(options, data, {device});
    run(data, {model, *optimizer, [&](const Tensor& images) { return model(to(images, device)); }, device}, options,
        reporter);
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
  run(data, {model, *optimizer, [&](const Tensor& images) { return parallel(images); }, output_device}, options,
      reporter);
}

}  // namespace fanout::tools
