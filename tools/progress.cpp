// SPDX-License-Identifier: Apache-2.0
#include "tools/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

namespace fanout::tools {

Reporter::Reporter(const TrainOptions& options, const models::Dataset& data, const std::vector<Device>& devices)
    : json_(options.json), text_(json_.to_standard_output() ? stderr : stdout), terminal_(isatty(fileno(text_)) == 1) {
  json_.require_writable();
  fmt::print(text_, "{}: {} training and {} test images of {} values, {} classes\n", data.name,
             data.train.labels.size(), data.test.labels.size(), data.features, data.classes);
  fmt::print(text_, "devices: {}{}\n", names(devices),
             devices.size() > 1 ? fmt::format("; {} is the primary", devices[0].name()) : "");
  std::fflush(text_);
}

void Reporter::begin(std::int64_t epochs, std::int64_t steps_per_epoch) {
  epochs_ = epochs;
  steps_per_epoch_ = steps_per_epoch;
}

void Reporter::step(const models::StepReport& report) {
  if (json_.wanted()) {
    json_.write(nlohmann::ordered_json{{"step", report.step}, {"epoch", report.epoch}, {"loss", report.loss}}.dump());
  }
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  draw(report);
}

void Reporter::say(const std::string& line, const std::string& json) {
  if (!line.empty()) fmt::print(text_, "{}\n", line);
  std::fflush(text_);
  if (!json.empty()) json_.write(json);
}

void Reporter::failed(const std::string& error) {
  clear_line();
  if (json_.started()) json_.write(nlohmann::ordered_json{{"error", error}}.dump());
}

void Reporter::draw(const models::StepReport& report) {
  constexpr int kWidth = 24;
  const std::int64_t in_epoch = report.step % steps_per_epoch_ + 1;
  const auto filled = static_cast<int>(kWidth * in_epoch / steps_per_epoch_);
  fmt::print(text_, "\repoch {:>3}/{} [{:<{}}] step {}/{}, loss {:.4f} ", report.epoch, epochs_,
             std::string(static_cast<std::size_t>(filled), '='), kWidth, in_epoch, steps_per_epoch_, report.loss);
  std::fflush(text_);
}

void Reporter::clear_line() {
  if (terminal_) fmt::print(text_, "\r\033[K");
}

void Reporter::epoch(const models::EpochReport& report) {
  clear_line();
  fmt::print(
      text_, "epoch {:>3}/{}: loss {:.4f}, accuracy {:.4f} on training, {:.4f} on test images, {:.0f} samples/s\n",
      report.epoch, epochs_, report.train_loss, report.train_accuracy, report.test_accuracy, report.samples_per_second);
  std::fflush(text_);
  if (!json_.wanted()) return;
  json_.write(nlohmann::ordered_json{{"epoch", report.epoch},
                                     {"train_loss", report.train_loss},
                                     {"train_accuracy", report.train_accuracy},
                                     {"test_accuracy", report.test_accuracy},
                                     {"samples_per_second", report.samples_per_second}}
                  .dump());
}

}  // namespace fanout::tools
