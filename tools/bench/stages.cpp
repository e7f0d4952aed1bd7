// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/bench/measure.h"
#include "tools/bench/training_step.h"

namespace fanout::bench {
namespace {

constexpr std::initializer_list<Stage> kCompute{Stage::forward, Stage::loss, Stage::backward};
constexpr std::initializer_list<Stage> kExchange{Stage::scatter, Stage::gather, Stage::reduce, Stage::replicate};

// What bounds the step: the greatest of what is not work on rows, unless that work is more than half.
std::string bound(const StepProfile& profile, const Findings& findings) {
  const double step = findings.together.fixed + findings.together.per_row * static_cast<double>(findings.batch_size);
  const double fixed = std::clamp(findings.together.fixed / step, 0.0, 1.0);
  const double compute = profile.part(kCompute), exchange = profile.part(kExchange),
               update = profile.part({Stage::update}), imbalance = profile.imbalance();
  // What the exchange and the update take does not depend on rows either; the rest of the fixed part is overhead.
  const double overhead = std::max(0.0, fixed - exchange - update);
  if (overhead >= std::max({0.3, exchange, imbalance})) {
    return fmt::format("launch-bound: {:.0f} % of the step is there whatever the rows, beside sums, copies and update",
                       100 * overhead);
  }
  if (exchange >= std::max(0.3, imbalance)) {
    return fmt::format("link-bound: {:.0f} % of the step on {} goes to copies and sums between devices", 100 * exchange,
                       profile.devices[0].device.name());
  }
  if (imbalance >= 0.15) {
    return fmt::format("imbalanced: the busiest device works {:.0f} % of the step longer than the mean one",
                       100 * imbalance);
  }
  return fmt::format("compute-bound: {:.0f} % of the step on {} is forward, loss and backward", 100 * compute,
                     profile.devices[0].device.name());
}

std::string whether_devices_pay(const Findings& findings) {
  if (findings.devices == 1) return "it runs on one device";
  const auto rows = static_cast<double>(findings.batch_size);
  const double together = findings.together.fixed + findings.together.per_row * rows;
  const double alone = findings.alone.fixed + findings.alone.per_row * rows;
  const std::string times =
      fmt::format("{} devices take {:.2f} of one device's time", findings.devices, together / alone);
  const double gain = findings.alone.per_row - findings.together.per_row;
  if (gain <= 0) return times + ", and more rows would not change that";
  const double from = std::max(0.0, (findings.together.fixed - findings.alone.fixed) / gain);
  const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(findings.devices),
                                            static_cast<std::int64_t>(std::floor(from)) + 1);
  if (together < alone) return fmt::format("{}; they pay from about {} rows a step on", times, first);
  return fmt::format("{}; they would pay from about {} rows a step on", times, first);
}

double seconds_of_step(const std::vector<std::int64_t>& net, std::int64_t rows, tools::OptimizerKind optimizer,
                       const std::vector<Device>& devices) {
  constexpr int kWarmUpSteps = 32;
  const StopRule rule{.window_seconds = 0.03, .least_windows = 7, .most_windows = 7};
  TrainingStep step(net, rows, optimizer, devices);
  for (int i = 0; i < kWarmUpSteps; ++i) step();
  return measure(devices, std::ref(step), rule).median;
}

StepCost measured_cost(const std::vector<std::int64_t>& net, std::int64_t rows, tools::OptimizerKind optimizer,
                       const std::vector<Device>& devices) {
  const std::int64_t few = std::max<std::int64_t>(1, rows / 4), many = std::max(few + 1, rows);
  return cost_of(few, seconds_of_step(net, few, optimizer, devices), many,
                 seconds_of_step(net, many, optimizer, devices));
}

}  // namespace

double StepProfile::part(std::initializer_list<Stage> stages) const {
  double sum = 0;
  for (const Stage stage : stages) sum += devices[0].in(stage);
  return sum / devices[0].total();
}

double StepProfile::imbalance() const {
  double most = 0, sum = 0, total = 0;
  for (const StageTimes& times : devices) {
    // The update is the primary's alone by design, and what is exchanged is counted there.
    double busy = 0;
    for (const Stage stage : {Stage::scatter, Stage::forward, Stage::backward}) busy += times.in(stage);
    most = std::max(most, busy);
    sum += busy;
    total = std::max(total, times.total());
  }
  return (most - sum / static_cast<double>(devices.size())) / total;
}

StepProfile profile_of(std::vector<StageTimes> times, std::int64_t steps) {
  for (StageTimes& device : times) {
    for (double& seconds : device.seconds) seconds /= static_cast<double>(steps);
  }
  return {std::move(times)};
}

std::vector<std::string> profile_lines(const StepProfile& profile) {
  std::vector<std::string> lines{fmt::format("{:>10}", "us a step")};
  for (std::size_t stage = 1; stage < kStages; ++stage) {
    lines[0] += fmt::format("{:>10}", name(static_cast<Stage>(stage)));
  }
  lines[0] += fmt::format("{:>10}{:>10}", name(Stage::waiting), "total");
  for (const StageTimes& times : profile.devices) {
    std::string line = fmt::format("{:>10}", times.device.name());
    for (std::size_t stage = 1; stage < kStages; ++stage) line += fmt::format("{:>10.1f}", times.seconds[stage] * 1e6);
    lines.push_back(line + fmt::format("{:>10.1f}{:>10.1f}", times.in(Stage::waiting)*1e6, times.total() * 1e6));
  }
  return lines;
}

StepCost cost_of(std::int64_t few_rows, double few_seconds, std::int64_t many_rows, double many_seconds) {
  const double per_row = (many_seconds - few_seconds) / static_cast<double>(many_rows - few_rows);
  return {few_seconds - per_row * static_cast<double>(few_rows), per_row};
}

std::string verdict(const StepProfile& profile, const Findings& findings) {
  return bound(profile, findings) + "; " + whether_devices_pay(findings) + ".";
}

std::string measured_verdict(const StepProfile& profile, const std::vector<std::int64_t>& net, std::int64_t batch_size,
                             tools::OptimizerKind optimizer, const std::vector<Device>& devices) {
  Findings findings{.devices = devices.size(), .batch_size = batch_size, .together = {}, .alone = {}};
  findings.together = measured_cost(net, batch_size, optimizer, devices);
  findings.alone = devices.size() == 1 ? findings.together : measured_cost(net, batch_size, optimizer, {devices[0]});
  return verdict(profile, findings);
}

}  // namespace fanout::bench
