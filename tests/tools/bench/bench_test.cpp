// SPDX-License-Identifier: Apache-2.0
// The parts of `fanout bench` that need no clock: what is made of times, stages and plots.
#include <catch2/catch.hpp>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "runtime/device/error.h"
#include "tools/bench/gnuplot.h"
#include "tools/bench/measure.h"
#include "tools/bench/raw_memcpy.h"
#include "tools/bench/report.h"
#include "tools/bench/stages.h"

using namespace fanout;
using namespace fanout::bench;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

StageTimes times_of(Device device, double scatter, double forward, double backward, double reduce, double update,
                    double waiting) {
  StageTimes times;
  times.device = device;
  times.seconds = {waiting, scatter, 0, forward, 0, 0, backward, reduce, update};
  return times;
}

}  // namespace

TEST_CASE("a summary has the median, the extremes, the 95th percentile and the distance of the quartiles") {
  const Timing timing = summary({5, 1, 3, 2, 4}, 0.5);
  CHECK(timing.median == 3);
  CHECK(timing.min == 1);
  CHECK(timing.max == 5);
  CHECK(timing.p95 == Approx(4.8));
  CHECK(timing.spread == Approx(2.0 / 3));
  CHECK(timing.windows == 5);
  CHECK_FALSE(timing.is_steady);
  CHECK(summary({2, 2, 2}, 0.01).is_steady);
  CHECK(summary({7}, 0.01).p95 == 7);
}

TEST_CASE("windows are taken until they agree, at least and at most as many as the rule says") {
  const std::vector<Device> devices{Device(0), Device(1)};
  const Timing content =
      measure(devices, [] {}, {.window_seconds = 0.001, .least_windows = 3, .most_windows = 50, .wanted_spread = 1e9});
  CHECK(content.windows == 3);
  CHECK(content.is_steady);
  const Timing never =
      measure(devices, [] {}, {.window_seconds = 0.001, .least_windows = 3, .most_windows = 7, .wanted_spread = -1});
  CHECK(never.windows == 7);
  CHECK_FALSE(never.is_steady);
}

TEST_CASE("host work runs on as many threads as asked, in every window the same number of times") {
  std::atomic<int> calls[3] = {};
  const Timing timing =
      measure_on_host(3, [&](int thread) { ++calls[thread]; },
                      {.window_seconds = 0.001, .least_windows = 4, .most_windows = 4, .wanted_spread = 0});
  CHECK(timing.windows == 4);
  CHECK(calls[0] > 0);
  CHECK(calls[1] == calls[0]);
  CHECK(calls[2] == calls[0]);
}

TEST_CASE("plain memcpy is timed for each number of threads and targets, also of few bytes") {
  const StopRule rule{.window_seconds = 0.001, .least_windows = 3, .most_windows = 3, .wanted_spread = 1e9};
  for (const int threads : {1, 2, 3}) {
    for (const std::size_t bytes : {std::size_t{4}, std::size_t{100'000}}) {
      CHECK(measure_memcpy(threads, bytes, 3, rule).median > 0);
    }
  }
}

TEST_CASE("the cost of a step is a line through two measurements") {
  const StepCost cost = cost_of(16, 0.5, 48, 0.9);
  CHECK(cost.per_row == Approx(0.0125));
  CHECK(cost.fixed == Approx(0.3));
}

TEST_CASE("a profile is a step's mean, with a line a device that ends in the sum") {
  const StepProfile profile = profile_of(
      {times_of(Device(1), 2e-6, 20e-6, 40e-6, 4e-6, 8e-6, 6e-6), times_of(Device(0), 2e-6, 20e-6, 40e-6, 0, 0, 18e-6)},
      2);
  const std::vector<std::string> lines = profile_lines(profile);
  REQUIRE(lines.size() == 3);
  CHECK(
      lines[0] ==
      " us a step   scatter replicate   forward    gather      loss  backward    reduce    update   waiting     total");
  CHECK(
      lines[1] ==
      "    cuda:1       1.0       0.0      10.0       0.0       0.0      20.0       2.0       4.0       3.0      40.0");
  CHECK(
      lines[2] ==
      "    cuda:0       1.0       0.0      10.0       0.0       0.0      20.0       0.0       0.0       9.0      40.0");
  CHECK(profile.part({Stage::forward, Stage::backward}) == Approx(0.75));
}

TEST_CASE("the verdict names what bounds the step") {
  const auto of = [](StageTimes primary, StageTimes other, StepCost together) {
    return verdict({{primary, other}}, {.devices = 2, .batch_size = 100, .together = together, .alone = {10e-6, 3e-6}});
  };
  const StageTimes busy = times_of(Device(0), 1e-6, 30e-6, 60e-6, 2e-6, 2e-6, 5e-6);
  CHECK_THAT(of(busy, busy, {5e-6, 0.95e-6}), StartsWith("compute-bound: 90 % of the step on cuda:0 is forward, loss"));
  CHECK_THAT(of(busy, busy, {80e-6, 0.2e-6}), StartsWith("launch-bound: 75 % of the step is there whatever the rows"));
  const StageTimes sending = times_of(Device(0), 20e-6, 20e-6, 20e-6, 35e-6, 2e-6, 3e-6);
  CHECK_THAT(of(sending, busy, {55e-6, 0.45e-6}), StartsWith("link-bound: 55 % of the step on cuda:0 goes to copies"));
  const StageTimes idle = times_of(Device(1), 1e-6, 5e-6, 10e-6, 0, 0, 84e-6);
  CHECK_THAT(of(busy, idle, {5e-6, 0.95e-6}), StartsWith("imbalanced: the busiest device works 38 % of the step"));
}

TEST_CASE("the verdict says whether several devices pay, and from which batch size on") {
  const StageTimes busy = times_of(Device(0), 1e-6, 30e-6, 60e-6, 2e-6, 2e-6, 5e-6);
  const auto of = [&](std::size_t devices, StepCost together, StepCost alone) {
    return verdict({{busy}}, {.devices = devices, .batch_size = 100, .together = together, .alone = alone});
  };
  CHECK_THAT(of(2, {60e-6, 1e-6}, {10e-6, 2e-6}),
             Contains("; 2 devices take 0.76 of one device's time; they pay from about 51 rows a step on."));
  CHECK_THAT(of(2, {310e-6, 1e-6}, {10e-6, 2e-6}),
             Contains("; 2 devices take 1.95 of one device's time; they would pay from about 301 rows a step on."));
  CHECK_THAT(of(4, {60e-6, 2e-6}, {10e-6, 2e-6}),
             Contains("; 4 devices take 1.24 of one device's time, and more rows would not change that."));
  CHECK_THAT(of(1, {10e-6, 2e-6}, {10e-6, 2e-6}), Contains("; it runs on one device."));
}

TEST_CASE("a plot's script has a line for each series, and quotes that no text can leave") {
  const Plot sizes{"it's", "size", "GB/s", "/size", "/bw", "/bench", true};
  const std::string script =
      gnuplot_script("a'b.svg", sizes, {{"one", "1024", 2.5}, {"two", "1024", 3}, {"one", "2048", 4}});
  CHECK_THAT(script, StartsWith("set terminal svg size 900,540\nset output 'a''b.svg.part'\nset title 'it''s'"));
  CHECK_THAT(script, Contains("set logscale x 2"));
  CHECK_THAT(script, Contains("$series0 << END\n\"1024\" 2.5\n\"2048\" 4\nEND\n$series1 << END\n\"1024\" 3\nEND\n"));
  CHECK_THAT(script, Contains("plot $series0 using 1:2 with linespoints title 'one', $series1 using 1:2 with"));
  const Plot stages{"t", "stage", "us", "/stage", "/us"};
  CHECK_THAT(gnuplot_script("x.png", stages, {{"", "forward", 1}}),
             StartsWith("set terminal png size") && Contains("using 2:xtic(1) with histograms"));
}

TEST_CASE("without gnuplot on the path a plot is refused, with the way to get it") {
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  CHECK_THROWS_WITH(require_gnuplot(),
                    "--plot draws with gnuplot, which is not on the path; Debian has it as gnuplot-nox");
  setenv("PATH", path.c_str(), 1);
}
