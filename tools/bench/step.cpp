// SPDX-License-Identifier: Apache-2.0
// `fanout bench step`: training steps a second, checked against one device.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/bench/bench.h"
#include "tools/bench/report.h"
#include "tools/bench/stages.h"
#include "tools/bench/training_step.h"

namespace fanout::bench {
namespace {

constexpr double kWindowSeconds = 0.1;
constexpr double kStagesSeconds = 0.3;
constexpr int kWarmUpSteps = 32;     // DataParallel tries its lanes in the first 16
constexpr double kTolerance = 1e-5;  // of the largest element of a gradient

// How many elements of the gradients of a first step differ on `devices` from those on the primary alone.
std::int64_t wrong_gradients(const tools::BenchOptions& options, const std::vector<Device>& devices) {
  TrainingStep alone(options.net, options.batch_size, options.optimizer, {devices[0]});
  TrainingStep together(options.net, options.batch_size, options.optimizer, devices);
  alone();
  together();
  std::int64_t wrong = 0;
  const std::vector<Tensor> expected = parameters(alone.model()), found = parameters(together.model());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto one = to_vector<float>(expected[i].grad()), many = to_vector<float>(found[i].grad());
    float largest = 0;
    for (const float value : one) largest = std::max(largest, std::fabs(value));
    for (std::size_t j = 0; j < one.size(); ++j) {
      // Not-a-number is wrong too.
      if (!(std::fabs(one[j] - many[j]) <= kTolerance * static_cast<double>(largest))) ++wrong;
    }
  }
  return wrong;
}

// Multiply-adds of the layers' products: forward, weights' gradients, inputs' gradients but for the first layer's.
double flops_of_step(const std::vector<std::int64_t>& net, std::int64_t rows) {
  double products = 0;
  for (std::size_t i = 1; i < net.size(); ++i) {
    products += (i == 1 ? 2.0 : 3.0) * static_cast<double>(net[i - 1]) * static_cast<double>(net[i]);
  }
  return 2 * products * static_cast<double>(rows);
}

void show_stages(const tools::BenchOptions& options, Report& report, TrainingStep& step, const Timing& timing,
                 const std::vector<Device>& devices) {
  const int steps = std::clamp(static_cast<int>(kStagesSeconds / timing.median), 10, 100);
  StepProfile profile;
  {
    StageRecorder recorder(devices);
    for (const bool counts : {false, true}) {  // the recorder makes its events in the first round
      recorder.start();
      for (int i = 0; i < steps; ++i) step();
      std::vector<StageTimes> times = recorder.stop();
      if (counts) profile = profile_of(std::move(times), steps);
    }
  }
  for (const std::string& line : profile_lines(profile)) report.say(line);
  report.say(fmt::format("the stages add up to {:.1f} us on each device, a step takes {:.1f} us without this look",
                         profile.devices[0].total() * 1e6, timing.median * 1e6));
  for (const StageTimes& times : profile.devices) {
    for (std::size_t stage = 0; stage < kStages; ++stage) {
      report.add_unseen({{"bench", "stages"},
                         {"device", times.device.name()},
                         {"stage", name(static_cast<Stage>(stage))},
                         {"us", times.seconds[stage] * 1e6}});
    }
  }
  const std::string sentence = measured_verdict(profile, options.net, options.batch_size, options.optimizer, devices);
  report.say(sentence);
  report.add_unseen({{"bench", "verdict"}, {"verdict", sentence}});
}

}  // namespace

void bench_step(const tools::BenchOptions& options, Report& report) {
  const std::vector<Device> devices = chosen_devices(options);
  TrainingStep step(options.net, options.batch_size, options.optimizer, devices);
  report.say(fmt::format("step {}, {}, {} rows on {}", fmt::join(options.net, "-"), tools::name_of(options.optimizer),
                         options.batch_size, names(devices)));
  report.begin({{"median us", "/median_us", 1},
                {"min us", "/min_us", 1},
                {"p95 us", "/p95_us", 1},
                {"spread %", "/spread_percent", 1},
                {"samples/s", "/median", 0},
                {"best", "/best", 0},
                {"GFLOP/s", "/gflops", 1},
                {"#wrong", "/nwrong"}});
  for (int i = 0; i < kWarmUpSteps; ++i) step();
  const Timing timing = measure(devices, std::ref(step), stop_rule(options, kWindowSeconds));
  const auto rows = static_cast<double>(options.batch_size);
  nlohmann::ordered_json row{{"bench", "step"},
                             {"net", fmt::format("{}", fmt::join(options.net, "-"))},
                             {"optimizer", tools::name_of(options.optimizer)},
                             {"batch_size", options.batch_size},
                             {"devices", devices.size()},
                             {"unit", "samples/s"},
                             {"best", rows / timing.min},
                             {"median", rows / timing.median},
                             {"min", rows / timing.max},
                             {"max", rows / timing.min},
                             {"gflops", flops_of_step(options.net, options.batch_size) / timing.median * 1e-9}};
  add_timing(row, timing);
  row["nwrong"] = wrong_gradients(options, devices);
  report.add(row);
  if (options.stages) show_stages(options, report, step, timing, devices);
  report.finish({fmt::format("step {}, {} rows", fmt::join(options.net, "-"), options.batch_size), "stage", "us a step",
                 "/stage", "/us", "/device"});
}

}  // namespace fanout::bench
