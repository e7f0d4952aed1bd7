// SPDX-License-Identifier: Apache-2.0
#include "tools/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <CLI/CLI.hpp>
#include <cmath>
#include <string_view>

namespace fanout::tools {
namespace {

constexpr std::int64_t kMaxCount = 1'000'000;  // of epochs, and of rows in a batch
constexpr std::int64_t kMaxWidth = 65'536;
constexpr std::size_t kMaxLayers = 64;
constexpr double kMaxLearningRate = 1000;
constexpr double kAdamLearningRate = 0.001;
constexpr const char* kCommandsAllowed = "fanout takes train or devices first (fanout --help tells more)";

// One option of `fanout train`, as help and errors name it.
struct OptionText {
  const char* name;
  const char* value;        // what stands for its value
  const char* description;  // ends with the default
  const char* expected;     // completes "expected ..."
};

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
constexpr OptionText kJson{"--json", "FILE", "write JSON lines to FILE, - for standard output (none)",
                           "a file name, or - for standard output"};

constexpr const OptionText* kTrainOptions[] = {&kData,         &kHidden,   &kEpochs,   &kBatchSize, &kOptimizer,
                                               &kLearningRate, &kMomentum, &kParallel, &kDevices,   &kModuleDevice,
                                               &kOutputDevice, &kSeed,     &kJson};

[[noreturn]] void fail(const std::string& text) {
  throw UsageError(text);
}

[[noreturn]] void fail_value(const OptionText& option, std::string_view value) {
  fail(fmt::format("{} '{}': expected {}", option.name, value, option.expected));
}

// Whether all of `text` is a number; from_chars takes no blanks and no plus sign.
template <class Number>
bool read_number(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string_view> split_at_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    if (comma == text.npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

std::int64_t read_count(const OptionText& option, std::string_view text) {
  std::int64_t value = 0;
  if (!read_number(text, value) || value < 1 || value > kMaxCount) fail_value(option, text);
  return value;
}

int read_device(const OptionText& option, std::string_view number, std::string_view text) {
  int value = -1;
  if (!read_number(number, value) || value < 0) fail_value(option, text);
  return value;
}

std::vector<std::int64_t> read_widths(const OptionText& option, std::string_view text) {
  std::vector<std::int64_t> widths;
  for (const std::string_view part : split_at_commas(text)) {
    std::int64_t width = 0;
    if (!read_number(part, width) || width < 1 || width > kMaxWidth) fail_value(option, text);
    widths.push_back(width);
  }
  if (widths.size() > kMaxLayers) fail_value(option, text);
  return widths;
}

std::vector<int> read_devices(const OptionText& option, std::string_view text) {
  std::vector<int> devices;
  for (const std::string_view part : split_at_commas(text)) {
    const int device = read_device(option, part, text);
    if (std::ranges::find(devices, device) != devices.end()) {
      fail(fmt::format("{} '{}': device {} is named twice; expected {}", option.name, text, device, option.expected));
    }
    devices.push_back(device);
  }
  return devices;
}

double read_learning_rate(const OptionText& option, std::string_view text) {
  double value = 0;
  if (!read_number(text, value) || !(value > 0 && value <= kMaxLearningRate)) fail_value(option, text);
  return value;
}

double read_momentum(const OptionText& option, std::string_view text) {
  double value = 0;
  if (!read_number(text, value) || !(value >= 0 && value < 1)) fail_value(option, text);
  return value;
}

std::uint64_t read_seed(const OptionText& option, std::string_view text) {
  std::uint64_t value = 0;
  if (!read_number(text, value)) fail_value(option, text);
  return value;
}

OptimizerKind read_optimizer(const OptionText& option, std::string_view text) {
  if (text == "sgd") return OptimizerKind::sgd;
  if (text == "adam") return OptimizerKind::adam;
  if (text == "adamw") return OptimizerKind::adamw;
  fail_value(option, text);
}

Parallelism read_parallelism(const OptionText& option, std::string_view text) {
  if (text == "none") return Parallelism::none;
  if (text == "dp") return Parallelism::data_parallel;
  fail_value(option, text);
}

std::string read_module_device(const OptionText& option, std::string_view text) {
  constexpr std::string_view kPrefix = "cuda:";
  if (text == "cpu") return "cpu";
  if (!text.starts_with(kPrefix)) fail_value(option, text);
  return fmt::format("cuda:{}", read_device(option, text.substr(kPrefix.size()), text));
}

std::string read_text(const OptionText& option, std::string_view text) {
  if (text.empty()) fail_value(option, text);
  return std::string(text);
}

// Refuses an option that is given twice or took the next option as its value.
void check_given(const CLI::App& command, const OptionText& option) {
  const std::vector<std::string>& values = command.get_option(option.name)->results();
  if (values.empty()) return;
  if (values.size() > 1) fail(fmt::format("{} is given {} times; give it once", option.name, values.size()));
  if (values[0].starts_with("--")) {
    fail(fmt::format("{} has no value before {}; expected {}", option.name, values[0], option.expected));
  }
}

TrainOptions read_train(const CLI::App& command) {
  TrainOptions options;
  const auto read = [&](const OptionText& option, auto reader, auto& value) {
    const std::vector<std::string>& texts = command.get_option(option.name)->results();
    if (!texts.empty()) value = reader(option, texts[0]);
    return !texts.empty();
  };
  const auto read_one_device = [](const OptionText& option, std::string_view text) {
    return read_device(option, text, text);
  };
  read(kData, read_text, options.data);
  read(kHidden, read_widths, options.hidden);
  read(kEpochs, read_count, options.epochs);
  read(kBatchSize, read_count, options.batch_size);
  read(kOptimizer, read_optimizer, options.optimizer);
  const bool is_sgd = options.optimizer == OptimizerKind::sgd;
  if (!read(kLearningRate, read_learning_rate, options.learning_rate) && !is_sgd) {
    options.learning_rate = kAdamLearningRate;
  }
  if (read(kMomentum, read_momentum, options.momentum) && !is_sgd) {
    fail("--momentum is only for --optimizer sgd; adam and adamw have none");
  }
  read(kParallel, read_parallelism, options.parallel);
  if (read(kDevices, read_devices, options.devices) && options.parallel == Parallelism::none &&
      options.devices->size() > 1) {
    fail(fmt::format("--parallel none trains on one device; --devices names {}: {}", options.devices->size(),
                     fmt::join(*options.devices, ",")));
  }
  read(kModuleDevice, read_module_device, options.module_device);
  read(kOutputDevice, read_one_device, options.output_device);
  read(kSeed, read_seed, options.seed);
  read(kJson, read_text, options.json);
  return options;
}

// All values are taken as text, every time that they are given, so that errors are ours.
CLI::App* add_train(CLI::App& app) {
  const std::string group = "Options, defaults in parentheses";
  CLI::App* train = app.add_subcommand("train", "Train a multi-layer perceptron (MLP) on images");
  for (const OptionText* option : kTrainOptions) {
    train->add_option(option->name)
        ->description(option->description)
        ->type_name(option->value)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->group(group);
  }
  train->set_help_flag("-h,--help", "show this help")->group(group);
  return train;
}

// Refuses what no option or command of `command` took.
void check_rest(const CLI::App& command) {
  const std::vector<std::string> rest = command.remaining();
  if (rest.empty()) return;
  const bool is_option = rest[0].starts_with('-');
  const std::string name = is_option ? rest[0].substr(0, rest[0].find('=')) : rest[0];
  if (command.get_parent() == nullptr) {
    fail(fmt::format("unknown {} '{}'; {}", is_option ? "option" : "command", name, kCommandsAllowed));
  }
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) names.push_back("--" + option->get_lnames().front());
  fail(fmt::format("{} '{}'; fanout {} takes {}{}", is_option ? "unknown option" : "unexpected argument", name,
                   command.get_name(), is_option ? "" : "options only: ", fmt::join(names, ", ")));
}

// CLI11 takes the next argument as the value of "--name=", so that form is refused first.
void check_empty_values(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--") && argument.find('=') == argument.size() - 1) {
      fail(fmt::format("{} has no value after the equals sign", argument));
    }
  }
}

// CLI11's text for an option at the end of the line begins with the option's name.
[[noreturn]] void fail_missing_value(const std::string& problem) {
  const std::string name = problem.substr(0, problem.find(':'));
  for (const OptionText* option : kTrainOptions) {
    if (name == option->name) fail(fmt::format("{} has no value; expected {}", name, option->expected));
  }
  fail(problem);
}

}  // namespace

Command parse_command_line(int argc, const char* const* argv) {
  CLI::App app("Trains neural networks on several devices of one machine, and shows how.", "fanout");
  app.set_help_flag("-h,--help", "show this help");
  app.set_version_flag("--version", "fanout " FANOUT_VERSION, "show the version");
  app.require_subcommand(0, 1);
  app.allow_extras();
  app.get_formatter()->column_width(26);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.get_formatter()->label("OPTIONS", "OPTION...");
  const CLI::App* train = add_train(app)->group("Commands");
  const CLI::App* devices = app.add_subcommand("devices", "List the devices of this machine")->group("Commands");
  app.footer("fanout COMMAND --help shows a command's options.");  // last, since commands inherit it

  check_empty_values(argc, argv);
  try {
    app.parse(std::max(argc, 1), argv);  // CLI11 counts on the name at argv[0]
  } catch (const CLI::CallForHelp&) {
    return HelpText{app.help()};
  } catch (const CLI::CallForVersion& version) {
    return VersionText{std::string(version.what()) + "\n"};
  } catch (const CLI::ArgumentMismatch& error) {
    fail_missing_value(error.what());
  } catch (const CLI::ParseError& error) {
    fail(error.what());
  }
  for (const OptionText* option : kTrainOptions) check_given(*train, *option);
  for (const CLI::App* command : {static_cast<const CLI::App*>(&app), train, devices}) check_rest(*command);
  if (train->parsed()) return read_train(*train);
  if (devices->parsed()) return DevicesOptions{};
  fail(fmt::format("no command; {}", kCommandsAllowed));
}

}  // namespace fanout::tools
