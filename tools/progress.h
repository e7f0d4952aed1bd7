// SPDX-License-Identifier: Apache-2.0
// What `fanout train` prints: a line an epoch, a moving line on a terminal, JSON lines where asked for.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "models/datasets/dataset.h"
#include "models/training.h"
#include "runtime/device/device.h"
#include "tools/json_lines.h"
#include "tools/options.h"

namespace fanout::tools {

class Reporter {
 public:
  Reporter(const TrainOptions& options, const models::Dataset& data, const std::vector<Device>& devices);

  void begin(std::int64_t epochs, std::int64_t steps_per_epoch);
  void step(const models::StepReport& report);
  void epoch(const models::EpochReport& report);
  /// A line beside the others, and what it says as a JSON object, if anything.
  void say(const std::string& line, const std::string& json = {});
  /// The run ends with this error: the last of the JSON lines, where there are any.
  void failed(const std::string& error);

 private:
  void draw(const models::StepReport& report);
  void clear_line();

  JsonLines json_;
  std::FILE* text_;
  bool terminal_;
  std::int64_t epochs_ = 0, steps_per_epoch_ = 0;
  std::chrono::steady_clock::time_point drawn_{};
};

}  // namespace fanout::tools
