// SPDX-License-Identifier: Apache-2.0
// Where a training step's time goes, and what follows from it: for `fanout bench step --stages` and `fanout train
// --profile`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/trace/stages.h"
#include "tools/options.h"

namespace fanout::bench {

/// A step's stages on each device, in seconds a step.
struct StepProfile {
  std::vector<StageTimes> devices;
  /// The part of the step that the primary spends in these stages.
  double part(std::initializer_list<Stage> stages) const;
  /// How much longer the busiest device works than the mean one, as a part of the step.
  double imbalance() const;
};

/// The times of `steps` steps, as one step's.
StepProfile profile_of(std::vector<StageTimes> times, std::int64_t steps);

/// The table: a line a device, a column a stage, in µs.
std::vector<std::string> profile_lines(const StepProfile& profile);

/// Seconds a step as a line over the rows of a batch: fixed + per_row * rows.
struct StepCost {
  double fixed = 0, per_row = 0;
};
StepCost cost_of(std::int64_t few_rows, double few_seconds, std::int64_t many_rows, double many_seconds);

/// What is known when the verdict is spoken.
struct Findings {
  std::size_t devices = 1;
  std::int64_t batch_size = 1;
  StepCost together;  // on all devices
  StepCost alone;     // on the primary alone
};

/// One sentence: what bounds the step, whether the devices pay against one alone, and from which batch size on they
/// would.
std::string verdict(const StepProfile& profile, const Findings& findings);

/// Measures steps of these sizes on all devices and on the first alone, and tells the verdict.
std::string measured_verdict(const StepProfile& profile, const std::vector<std::int64_t>& net, std::int64_t batch_size,
                             tools::OptimizerKind optimizer, const std::vector<Device>& devices);

}  // namespace fanout::bench
