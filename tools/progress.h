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
#include "tools/options.h"

namespace fanout::tools {

/// JSON lines, an object a line, to a file or standard output. The file is made at the first line, so that a run that
/// fails before leaves none. Throws fanout::Error naming the file when it cannot be written.
class JsonLines {
 public:
  /// `path` empty: nothing is written; "-": standard output.
  explicit JsonLines(std::string path) : path_(std::move(path)) {}
  ~JsonLines();
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;

  bool wanted() const { return !path_.empty(); }
  /// True once a line was written.
  bool started() const { return file_ != nullptr; }
  bool to_standard_output() const { return path_ == "-"; }
  /// Throws now if the file could not be written at the first line; makes no file.
  void require_writable() const;
  void write(const std::string& object);

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
};

class Reporter {
 public:
  Reporter(const TrainOptions& options, const models::Dataset& data, const std::vector<Device>& devices);

  void begin(std::int64_t epochs, std::int64_t steps_per_epoch);
  void step(const models::StepReport& report);
  void epoch(const models::EpochReport& report);
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
