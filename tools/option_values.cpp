// SPDX-License-Identifier: Apache-2.0
#include "tools/option_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace fanout::tools {
namespace {

constexpr std::int64_t kMaxCount = 1'000'000;  // of epochs, and of rows in a batch
constexpr std::int64_t kMaxWidth = 65'536;
constexpr std::size_t kMaxLayers = 64;
constexpr double kMaxLearningRate = 1000;
constexpr std::size_t kMaxBytes = std::size_t{1} << 36;

// Whether all of `text` is a number; from_chars takes no blanks and no plus sign.
template <class Number>
bool read_number(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string_view> split_at(std::string_view separators, std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find_first_of(separators);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::int64_t> widths_of(const OptionText& option, std::string_view text,
                                    const std::vector<std::string_view>& parts) {
  std::vector<std::int64_t> widths;
  for (const std::string_view part : parts) {
    std::int64_t width = 0;
    if (!read_number(part, width) || width < 1 || width > kMaxWidth) fail_value(option, text);
    widths.push_back(width);
  }
  if (widths.size() > kMaxLayers) fail_value(option, text);
  return widths;
}

// "16M": 16 times 2^20 bytes.
std::size_t read_bytes(const OptionText& option, std::string_view number, std::string_view text) {
  constexpr std::string_view kUnits = "KMG";
  int shift = 0;
  if (!number.empty()) {
    if (const std::size_t unit = kUnits.find(number.back()); unit != kUnits.npos) {
      shift = 10 * (static_cast<int>(unit) + 1);
      number.remove_suffix(1);
    }
  }
  std::size_t value = 0;
  if (!read_number(number, value) || value < 1 || value > (kMaxBytes >> shift)) fail_value(option, text);
  return value << shift;
}

}  // namespace

[[noreturn]] void fail(const std::string& text) {
  throw UsageError(text);
}

[[noreturn]] void fail_value(const OptionText& option, std::string_view value) {
  fail(fmt::format("{} '{}': expected {}", option.name, value, option.expected));
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
  return widths_of(option, text, split_at(",", text));
}

std::vector<std::int64_t> read_net(const OptionText& option, std::string_view text) {
  std::vector<std::int64_t> widths = widths_of(option, text, split_at(",-", text));
  if (widths.size() < 2) fail_value(option, text);
  return widths;
}

std::vector<int> read_devices(const OptionText& option, std::string_view text) {
  std::vector<int> devices;
  for (const std::string_view part : split_at(",", text)) {
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

int read_one_device(const OptionText& option, std::string_view text) {
  return read_device(option, text, text);
}

std::vector<std::size_t> read_sizes(const OptionText& option, std::string_view text) {
  const std::vector<std::string_view> ends = split_at(":", text);
  if (ends.size() > 2) fail_value(option, text);
  const std::size_t first = read_bytes(option, ends.front(), text), last = read_bytes(option, ends.back(), text);
  if (first > last || first % 4 != 0) fail_value(option, text);
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = first; bytes <= last; bytes *= 2) sizes.push_back(bytes);
  return sizes;
}

int read_dimension(const OptionText& option, std::string_view text) {
  if (text != "0" && text != "1") fail_value(option, text);
  return text == "1" ? 1 : 0;
}

InputMemory read_input_memory(const OptionText& option, std::string_view text) {
  if (text == "pinned") return InputMemory::pinned;
  if (text == "pageable") return InputMemory::pageable;
  if (text == "device") return InputMemory::device;
  fail_value(option, text);
}

double read_seconds(const OptionText& option, std::string_view text) {
  double value = 0;
  if (!read_number(text, value) || !(value >= 0.001 && value <= 60)) fail_value(option, text);
  return value;
}

void add_options(CLI::App& command, std::span<const OptionText* const> options) {
  const std::string group = "Options, defaults in parentheses";
  for (const OptionText* option : options) {
    if (option->value == nullptr) {
      command.add_flag(option->name)->description(option->description)->group(group);
      continue;
    }
    command.add_option(option->name)
        ->description(option->description)
        ->type_name(option->value)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->group(group);
  }
  command.set_help_flag("-h,--help", "show this help")->group(group);
}

void check_given(const CLI::App& command, std::span<const OptionText* const> options) {
  for (const OptionText* option : options) {
    const std::vector<std::string> values = command.get_option(option->name)->results();
    if (values.empty()) continue;
    if (values.size() > 1) fail(fmt::format("{} is given {} times; give it once", option->name, values.size()));
    if (option->value != nullptr && values[0].starts_with("--")) {
      fail(fmt::format("{} has no value before {}; expected {}", option->name, values[0], option->expected));
    }
  }
}

}  // namespace fanout::tools
