// SPDX-License-Identifier: Apache-2.0
// The options of `fanout train`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/option_values.h"

namespace fanout::tools {
namespace {

constexpr OptionText kData{"--data", "NAME", "digits, mnist:DIR or synthetic:ROWSxFEATURES (digits)",
                           "digits, mnist:DIR or synthetic:ROWSxFEATURES"};
constexpr OptionText kHidden{"--hidden", "N,N,...", "widths of the hidden layers (512,512)",
                             "1 to 64 widths, each 1 to 65536, separated by commas, such as 512,512"};
constexpr OptionText kEpochs{"--epochs", "N", "passes over the training images (10)", "a whole number 1 to 1000000"};
constexpr OptionText kBatchSize{"--batch-size", "N", "images a step, over all devices (64)",
                                "a whole number 1 to 1000000"};
constexpr OptionText kOptimizer{"--optimizer", "NAME", "sgd, adam or adamw (sgd)", "sgd, adam or adamw"};
constexpr OptionText kLearningRate{"--learning-rate", "X", "step size (sgd 0.05, adam and adamw 0.001)",
                                   "a number above 0, at most 1000"};
constexpr OptionText kMomentum{"--momentum", "X", "share of the last step that sgd keeps (0.9)",
                               "a number from 0 to below 1"};
constexpr OptionText kParallel{"--parallel", "MODE", "dp: batches split over devices; none: one device (dp)",
                               "dp or none"};
constexpr OptionText kDevices{"--devices", "N,N,...", "devices to use, the primary first (all, from 0)",
                              "device numbers from 0, separated by commas, each once, such as 2,0,1"};
constexpr OptionText kModuleDevice{"--module-device", "DEVICE", "where the module is, cuda:N or cpu (the primary)",
                                   "cuda:N or cpu"};
constexpr OptionText kOutputDevice{"--output-device", "N", "device that gathers the outputs (the primary)",
                                   "a device number from 0"};
constexpr OptionText kSeed{"--seed", "N", "for parameters, order of images, synthetic data (0)",
                           "a whole number 0 to 18446744073709551615"};
constexpr OptionText kProfile{"--profile", nullptr, "show where a step's time goes, by device and stage", ""};
constexpr OptionText kJson{"--json", "FILE", "write JSON lines to FILE, - for standard output (none)",
                           "a file name, or - for standard output"};

constexpr const OptionText* kTrainOptions[] = {&kData,         &kHidden,   &kEpochs,   &kBatchSize, &kOptimizer,
                                               &kLearningRate, &kMomentum, &kParallel, &kDevices,   &kModuleDevice,
                                               &kOutputDevice, &kSeed,     &kProfile,  &kJson};

}  // namespace

std::span<const OptionText* const> train_options() {
  return kTrainOptions;
}

CLI::App* add_train(CLI::App& app) {
  CLI::App* train = app.add_subcommand("train", "Train a multi-layer perceptron (MLP) on images");
  add_options(*train, train_options());
  return train;
}

const char* name_of(OptimizerKind kind) {
  return kind == OptimizerKind::sgd ? "sgd" : kind == OptimizerKind::adam ? "adam" : "adamw";
}

double default_learning_rate(OptimizerKind kind) {
  return kind == OptimizerKind::sgd ? 0.05 : 0.001;
}

TrainOptions read_train(const CLI::App& command) {
  TrainOptions options;
  read(command, kData, read_text, options.data);
  read(command, kHidden, read_widths, options.hidden);
  read(command, kEpochs, read_count, options.epochs);
  read(command, kBatchSize, read_count, options.batch_size);
  read(command, kOptimizer, read_optimizer, options.optimizer);
  const bool is_sgd = options.optimizer == OptimizerKind::sgd;
  options.learning_rate = default_learning_rate(options.optimizer);
  read(command, kLearningRate, read_learning_rate, options.learning_rate);
  if (read(command, kMomentum, read_momentum, options.momentum) && !is_sgd) {
    fail("--momentum is only for --optimizer sgd; adam and adamw have none");
  }
  read(command, kParallel, read_parallelism, options.parallel);
  if (read(command, kDevices, read_devices, options.devices) && options.parallel == Parallelism::none &&
      options.devices->size() > 1) {
    fail(fmt::format("--parallel none trains on one device; --devices names {}: {}", options.devices->size(),
                     fmt::join(*options.devices, ",")));
  }
  read(command, kModuleDevice, read_module_device, options.module_device);
  read(command, kOutputDevice, read_one_device, options.output_device);
  read(command, kSeed, read_seed, options.seed);
  options.profile = command.count(kProfile.name) > 0;
  read(command, kJson, read_text, options.json);
  return options;
}

}  // namespace fanout::tools
