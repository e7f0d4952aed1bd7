// SPDX-License-Identifier: Apache-2.0
// The options of `fanout bench`, by subject.
#include <fmt/format.h>

#include <array>
#include <string_view>

#include "tools/option_values.h"

namespace fanout::tools {
namespace {

constexpr OptionText kDevices{"--devices", "N,N,...", "devices to use, the primary first (all, from 0)",
                              "device numbers from 0, separated by commas, each once, such as 2,0,1"};
constexpr OptionText kSizes{"--sizes", "A:B", "bytes, doubled from A to B (1K:64M)",
                            "one size or two, the smaller first, such as 1K:256M, multiples of 4 bytes up to 64G"};
constexpr OptionText kDim{"--dim", "N", "dimension to split or join, 0 or 1 (0)", "0 or 1"};
constexpr OptionText kInput{"--input", "WHERE", "pinned, pageable or device (pinned)", "pinned, pageable or device"};
constexpr OptionText kNet{"--net", "N-N-...", "widths of the net (784-512-512-10)",
                          "2 to 64 widths, each 1 to 65536, separated by hyphens, such as 784-512-512-10"};
constexpr OptionText kBatchSize{"--batch-size", "N", "rows a step, over all devices (256)",
                                "a whole number 1 to 1000000"};
constexpr OptionText kOptimizer{"--optimizer", "NAME", "sgd, adam or adamw (sgd)", "sgd, adam or adamw"};
constexpr OptionText kStages{"--stages", nullptr, "show where the time goes, by device and stage", ""};
constexpr OptionText kWindows{"--windows", "N", "windows (9 to 61, until they agree)", "a whole number 1 to 1000000"};
constexpr OptionText kWindow{"--window", "SECONDS", "length of a window (0.02, of steps 0.1)",
                             "seconds from 0.001 to 60"};
constexpr OptionText kJson{"--json", "FILE", "write JSON lines to FILE, - for standard output (none)",
                           "a file name, or - for standard output"};
constexpr OptionText kCsv{"--csv", "FILE", "write comma-separated lines to FILE (none)", "a file name"};
constexpr OptionText kPlot{"--plot", "FILE", "draw FILE.svg or FILE.png by gnuplot (none)",
                           "a file name that ends in .svg or .png"};

constexpr const OptionText* kAll[] = {&kDevices, &kSizes,   &kDim,    &kInput, &kNet, &kBatchSize, &kOptimizer,
                                      &kStages,  &kWindows, &kWindow, &kJson,  &kCsv, &kPlot};

struct SubjectText {
  Subject subject;
  const char* name;
  const char* description;
  bool has_sizes, has_dim, has_input;
};

constexpr SubjectText kSubjects[] = {
    {Subject::scatter, "scatter", "Split a tensor over the devices", true, true, true},
    {Subject::gather, "gather", "Join the devices' tensors on the primary", true, true, false},
    {Subject::broadcast, "broadcast", "Copy a tensor from the primary to all devices", true, false, false},
    {Subject::reduce, "reduce", "Sum the devices' tensors on the primary", true, false, false},
    {Subject::allreduce, "allreduce", "Sum the devices' tensors on all devices", true, false, false},
    {Subject::replicate, "replicate", "Bring a module's replicas up to date", true, false, false},
    {Subject::p2p, "p2p", "Copy between every two devices", true, false, false},
    {Subject::kernels, "kernels", "Run each kernel alone, against a copy", true, false, false},
    {Subject::step, "step", "Train: one step after another", false, false, false},
};

std::vector<const OptionText*> options_of(const SubjectText& subject) {
  std::vector<const OptionText*> options{&kDevices};
  if (subject.has_sizes) options.push_back(&kSizes);
  if (subject.has_dim) options.push_back(&kDim);
  if (subject.has_input) options.push_back(&kInput);
  if (subject.subject == Subject::step) options.insert(options.end(), {&kNet, &kBatchSize, &kOptimizer, &kStages});
  options.insert(options.end(), {&kWindows, &kWindow, &kJson, &kCsv, &kPlot});
  return options;
}

std::string read_plot(const OptionText& option, std::string_view text) {
  const bool has_stem = text.size() > 4;
  if (!has_stem || !(text.ends_with(".svg") || text.ends_with(".png"))) fail_value(option, text);
  return std::string(text);
}

BenchOptions read_subject(const CLI::App& command, const SubjectText& subject) {
  check_given(command, options_of(subject));
  BenchOptions options;
  options.subject = subject.subject;
  read(command, kDevices, read_devices, options.devices);
  if (subject.has_sizes) {
    options.sizes = read_sizes(kSizes, "1K:64M");
    read(command, kSizes, read_sizes, options.sizes);
  }
  if (subject.has_dim) read(command, kDim, read_dimension, options.dim);
  if (subject.has_input) read(command, kInput, read_input_memory, options.input);
  if (subject.subject == Subject::step) {
    read(command, kNet, read_net, options.net);
    read(command, kBatchSize, read_count, options.batch_size);
    read(command, kOptimizer, read_optimizer, options.optimizer);
    options.stages = command.count(kStages.name) > 0;
  }
  read(command, kWindows, read_count, options.windows);
  read(command, kWindow, read_seconds, options.window_seconds);
  read(command, kJson, read_text, options.json);
  read(command, kCsv, read_text, options.csv);
  read(command, kPlot, read_plot, options.plot);
  return options;
}

}  // namespace

std::span<const OptionText* const> bench_options() {
  return kAll;
}

const char* name_of(Subject subject) {
  for (const SubjectText& text : kSubjects) {
    if (text.subject == subject) return text.name;
  }
  return "";
}

std::string subject_names() {
  std::string names;
  for (const SubjectText& subject : kSubjects) {
    const bool is_last = &subject == &kSubjects[std::size(kSubjects) - 1];
    names += fmt::format("{}{}", names.empty() ? "" : is_last ? " or " : ", ", subject.name);
  }
  return names;
}

CLI::App* add_bench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure copies, kernels and training steps");
  bench->require_subcommand(0, 1);
  for (const SubjectText& subject : kSubjects) {
    CLI::App* command = bench->add_subcommand(subject.name, subject.description)->group("Subjects");
    add_options(*command, options_of(subject));
  }
  return bench;
}

BenchOptions read_bench(const CLI::App& command) {
  for (const SubjectText& subject : kSubjects) {
    const CLI::App* chosen = command.get_subcommand(subject.name);
    if (chosen->parsed()) return read_subject(*chosen, subject);
  }
  fail(fmt::format("bench has no subject; it takes {}", subject_names()));
}

}  // namespace fanout::tools
