// SPDX-License-Identifier: Apache-2.0
// Options as text: how help and errors name them, and how their values are read. Not for users.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/options.h"

namespace fanout::tools {

/// One option of a command.
struct OptionText {
  const char* name;
  const char* value;        // what stands for its value; null for an option without one
  const char* description;  // ends with the default
  const char* expected;     // completes "expected ..."
};

[[noreturn]] void fail(const std::string& text);
[[noreturn]] void fail_value(const OptionText& option, std::string_view value);

std::int64_t read_count(const OptionText& option, std::string_view text);
int read_device(const OptionText& option, std::string_view number, std::string_view text);
int read_one_device(const OptionText& option, std::string_view text);
std::vector<int> read_devices(const OptionText& option, std::string_view text);
/// Widths of layers, separated by commas.
std::vector<std::int64_t> read_widths(const OptionText& option, std::string_view text);
/// At least two widths of layers, separated by commas or hyphens.
std::vector<std::int64_t> read_net(const OptionText& option, std::string_view text);
double read_learning_rate(const OptionText& option, std::string_view text);
double read_momentum(const OptionText& option, std::string_view text);
std::uint64_t read_seed(const OptionText& option, std::string_view text);
OptimizerKind read_optimizer(const OptionText& option, std::string_view text);
Parallelism read_parallelism(const OptionText& option, std::string_view text);
std::string read_module_device(const OptionText& option, std::string_view text);
std::string read_text(const OptionText& option, std::string_view text);
/// Bytes from A to B, each double the one before: "A:B" or "A", whole numbers with K, M or G behind them.
std::vector<std::size_t> read_sizes(const OptionText& option, std::string_view text);
int read_dimension(const OptionText& option, std::string_view text);
InputMemory read_input_memory(const OptionText& option, std::string_view text);
/// 0.001 to 60.
double read_seconds(const OptionText& option, std::string_view text);

/// Adds the options to the command. All values are taken as text, every time that they are given, so that errors are
/// ours.
void add_options(CLI::App& command, std::span<const OptionText* const> options);
/// Refuses an option that is given twice or took the next option as its value.
void check_given(const CLI::App& command, std::span<const OptionText* const> options);

/// Sets `value` to what `reader` makes of the option's text, if it was given.
template <class Reader, class Value>
bool read(const CLI::App& command, const OptionText& option, Reader reader, Value& value) {
  const std::vector<std::string> texts = command.get_option(option.name)->results();
  if (!texts.empty()) value = reader(option, texts[0]);
  return !texts.empty();
}

/// `fanout train` and `fanout bench`: their options, and what was given.
CLI::App* add_train(CLI::App& app);
TrainOptions read_train(const CLI::App& command);
std::span<const OptionText* const> train_options();
CLI::App* add_bench(CLI::App& app);
BenchOptions read_bench(const CLI::App& command);
/// "scatter, gather or step": for messages.
std::string subject_names();
/// All options of all subjects.
std::span<const OptionText* const> bench_options();

}  // namespace fanout::tools
