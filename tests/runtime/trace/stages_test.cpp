// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace/stages.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "runtime/device/context.h"
#include "runtime/device/error.h"

using namespace fanout;

namespace {

const std::vector<Device> kDevices{Device(1), Device(0)};

// Occupies the device's compute stream for so long.
void work(Device device, int milliseconds) {
  static const auto sleep = [](void* time) {
    std::this_thread::sleep_for(std::chrono::milliseconds(*static_cast<int*>(time)));
  };
  static int time = 0;
  time = milliseconds;
  FANOUT_CHECK(cudaLaunchHostFunc(compute_stream(device).handle, +sleep, &time));
  compute_stream(device).synchronize();
}

}  // namespace

TEST_CASE("a device's time belongs to the innermost stage, the rest is waiting, and all add up to the whole") {
  StageRecorder recorder(kDevices);
  recorder.start();
  const auto begun = std::chrono::steady_clock::now();
  {
    const StageScope forward(Device(1), Stage::forward);
    work(Device(1), 20);
    {
      const StageScope scatter(Device(1), Stage::scatter);
      work(Device(1), 30);
    }
    work(Device(1), 10);
  }
  work(Device(1), 5);
  const std::vector<StageTimes> times = recorder.stop();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begun;
  REQUIRE(times.size() == 2);
  CHECK(times[0].device == Device(1));
  CHECK(times[0].in(Stage::forward) >= 0.030);
  CHECK(times[0].in(Stage::scatter) >= 0.030);
  CHECK(times[0].in(Stage::waiting) >= 0.005);
  CHECK(times[0].in(Stage::backward) == 0);
  CHECK(times[0].total() >= 0.065);
  CHECK(times[0].total() <= wall.count() + 0.001);
  CHECK(times[1].in(Stage::waiting) == times[1].total());
  CHECK(times[1].total() == Approx(times[0].total()).margin(0.002));
}

TEST_CASE("a recording begins anew at each start, and scopes without a recorder record nothing") {
  { const StageScope nobody_looks(Device(0), Stage::forward); }
  StageRecorder recorder({Device(0)});
  recorder.start();
  {
    const StageScope forward(Device(0), Stage::forward);
    work(Device(0), 5);
  }
  {
    const StageScope other(Device(2), Stage::forward);  // a device that is not recorded
  }
  CHECK(recorder.stop()[0].in(Stage::forward) >= 0.005);
  recorder.start();
  const StageTimes second = recorder.stop()[0];
  CHECK(second.in(Stage::forward) == 0);
  CHECK(second.total() > 0);
}

TEST_CASE("one recorder at a time") {
  {
    const StageRecorder first(kDevices);
    CHECK_THROWS_WITH(StageRecorder(kDevices), "stages are being recorded already; one StageRecorder at a time");
  }
  CHECK_NOTHROW(StageRecorder(kDevices));
}

TEST_CASE("every stage has a name") {
  CHECK(std::string(name(Stage::waiting)) == "waiting");
  CHECK(std::string(name(Stage::update)) == "update");
}
