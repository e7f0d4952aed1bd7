// SPDX-License-Identifier: Apache-2.0
// What `fanout bench` found: lines of a table on the terminal, JSON lines, a file with commas, a plot.
#pragma once

#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/device/device.h"
#include "tools/bench/measure.h"
#include "tools/json_lines.h"
#include "tools/options.h"

namespace fanout::bench {

/// A column of the table: its head, and where a row has its value, as a JSON pointer ("/out_of_place/time").
struct Column {
  const char* head;
  const char* pointer;
  int decimals = 2;  // of a number with a fraction
};

/// A line of the plot over the rows that name it. Both axes are pointers into rows.
struct Plot {
  std::string title, x_label, y_label;
  const char* x;
  const char* y;
  const char* series = nullptr;  // rows with equal values here are one line; none: all are
  bool is_logarithmic = false;   // the x axis, in powers of 2
};

class Report {
 public:
  /// Throws fanout::Error now if a file could not be written at the end, or gnuplot is missing where it is needed.
  explicit Report(const tools::BenchOptions& options);
  ~Report();

  /// Text on the terminal, beside the table.
  void say(const std::string& text);
  /// Begins a table; the rows that follow have these columns.
  void begin(std::vector<Column> columns);
  /// A row: printed, and written as a JSON line.
  void add(const nlohmann::ordered_json& row);
  /// A row that is no line of the table: for JSON and the plot alone.
  void add_unseen(const nlohmann::ordered_json& row);
  /// Writes the files. Without a `plot` there is none.
  void finish(const Plot& plot);

 private:
  std::string cell(const nlohmann::ordered_json& row, const Column& column) const;
  std::string csv() const;

  const tools::BenchOptions& options_;
  tools::JsonLines json_;
  std::FILE* text_;
  std::vector<Column> columns_;
  std::vector<nlohmann::ordered_json> rows_, unseen_;
};

/// Median, minimum and 95th percentile in µs, spread in per cent, windows, and whether these agreed: keys of a row.
void add_timing(nlohmann::ordered_json& row, const Timing& timing);
/// The rule that the options ask for; `window_seconds` where they say nothing.
StopRule stop_rule(const tools::BenchOptions& options, double window_seconds);
/// The options' devices. Throws UsageError where the machine has them not.
std::vector<Device> chosen_devices(const tools::BenchOptions& options);

}  // namespace fanout::bench
