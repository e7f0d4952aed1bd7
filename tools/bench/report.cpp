// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/device/error.h"
#include "runtime/parallel/placement.h"
#include "tools/bench/gnuplot.h"

namespace fanout::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWidth = 11;

const Json* value_at(const Json& row, const char* pointer) {
  const Json::json_pointer place(pointer);
  return row.contains(place) ? &row.at(place) : nullptr;
}

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return quoted + "\"";
}

}  // namespace

Report::Report(const tools::BenchOptions& options)
    : options_(options), json_(options.json), text_(json_.to_standard_output() ? stderr : stdout) {
  json_.require_writable();
  if (!options.csv.empty()) tools::require_writable("--csv", options.csv);
  if (!options.plot.empty()) {
    tools::require_writable("--plot", options.plot);
    require_gnuplot();
  }
}

Report::~Report() = default;

void Report::say(const std::string& text) {
  fmt::print(text_, "{}\n", text);
  std::fflush(text_);
}

void Report::begin(std::vector<Column> columns) {
  columns_ = std::move(columns);
  std::string line;
  for (const Column& column : columns_) line += fmt::format("{:>{}}", column.head, kWidth);
  say(line);
}

std::string Report::cell(const Json& row, const Column& column) const {
  const Json* value = value_at(row, column.pointer);
  if (value == nullptr || value->is_null()) return "-";
  if (value->is_number_float()) return fmt::format("{:.{}f}", value->get<double>(), column.decimals);
  if (value->is_boolean()) return value->get<bool>() ? "yes" : "no";
  return value->is_string() ? value->get<std::string>() : value->dump();
}

void Report::add(const Json& row) {
  rows_.push_back(row);
  json_.write(row.dump());
  std::string line;
  for (const Column& column : columns_) line += fmt::format(" {:>{}}", cell(row, column), kWidth - 1);
  const Json* steady = value_at(row, "/steady");
  if (steady != nullptr && !steady->get<bool>()) line += " ~";
  say(line);
}

void Report::add_unseen(const Json& row) {
  unseen_.push_back(row);
  json_.write(row.dump());
}

std::string Report::csv() const {
  std::string text;
  for (const Column& column : columns_) text += fmt::format("{}{}", text.empty() ? "" : ",", quoted(column.head));
  text += '\n';
  for (const Json& row : rows_) {
    std::string line;
    for (const Column& column : columns_) {
      line += fmt::format("{}{}", &column == &columns_[0] ? "" : ",", quoted(cell(row, column)));
    }
    text += line + '\n';
  }
  return text;
}

void Report::finish(const Plot& plot) {
  const auto unsteady = std::count_if(rows_.begin(), rows_.end(), [](const Json& row) {
    const Json* steady = value_at(row, "/steady");
    return steady != nullptr && !steady->get<bool>();
  });
  if (unsteady > 0) {
    say(fmt::format(
        "~ in {} of {} lines the windows did not agree within {:.0f} %: something else used the machine, or "
        "the work varies",
        unsteady, rows_.size(), 100 * StopRule().wanted_spread));
  }
  if (!options_.csv.empty()) tools::write_whole("--csv", options_.csv, csv());
  if (options_.plot.empty()) return;
  std::vector<PlotPoint> points;
  std::vector<Json> all = rows_;
  all.insert(all.end(), unseen_.begin(), unseen_.end());
  for (const Json& row : all) {
    const Json *x = value_at(row, plot.x), *y = value_at(row, plot.y);
    if (x == nullptr || y == nullptr || !y->is_number()) continue;
    const Json* series = plot.series == nullptr ? nullptr : value_at(row, plot.series);
    points.push_back({series == nullptr ? "" : series->get<std::string>(),
                      x->is_string() ? x->get<std::string>() : x->dump(), y->get<double>()});
  }
  draw(options_.plot, plot, points);
}

void add_timing(Json& row, const Timing& timing) {
  row["median_us"] = timing.median * 1e6;
  row["min_us"] = timing.min * 1e6;
  row["p95_us"] = timing.p95 * 1e6;
  row["spread_percent"] = timing.spread * 100;
  row["n"] = timing.windows;
  row["steady"] = timing.is_steady;
}

StopRule stop_rule(const tools::BenchOptions& options, double window_seconds) {
  StopRule rule{.window_seconds = options.window_seconds.value_or(window_seconds)};
  if (options.windows) rule.least_windows = rule.most_windows = static_cast<int>(*options.windows);
  return rule;
}

std::vector<Device> chosen_devices(const tools::BenchOptions& options) {
  try {
    return devices_of_ids(options.devices.value_or(std::vector<int>{}));
  } catch (const InvalidArgument& error) {
    throw tools::UsageError(error.what());
  }
}

}  // namespace fanout::bench
