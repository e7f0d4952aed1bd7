// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/measure.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <thread>

#include "runtime/device/context.h"
#include "runtime/device/error.h"

namespace fanout::bench {
namespace {

constexpr int kWarmUpWindows = 2;
constexpr long kMostCalls = 1L << 24;  // in a window

// Between two of the sorted values, as far as `part` of the way from the first to the last.
double quantile(const std::vector<double>& sorted, double part) {
  const double place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - std::floor(place));
}

// A window's start and end on devices.
class DeviceWindow {
 public:
  explicit DeviceWindow(const std::vector<Device>& devices)
      : devices_(devices), begun_(devices[0], EventTime::kept), ended_(devices[0], EventTime::kept) {}

  void begin() {
    gather();
    begun_.record(compute_stream(devices_[0]));
    for (const Device device : others()) {
      FANOUT_CHECK(cudaStreamWaitEvent(compute_stream(device).handle, begun_.handle(), 0));
    }
  }
  double end() {
    gather();
    ended_.record(compute_stream(devices_[0]));
    ended_.synchronize();
    return ended_.seconds_since(begun_);
  }

 private:
  std::vector<Device> others() const { return {devices_.begin() + 1, devices_.end()}; }
  void gather() {
    for (const Device device : others()) wait_for(compute_stream(devices_[0]), context(device).compute());
  }

  std::vector<Device> devices_;
  Event begun_, ended_;
};

// Takes windows until the rule is content; window(calls) gives the seconds of so many calls.
template <class Window>
Timing sample(const StopRule& rule, const Window& window) {
  long calls = 1;
  for (int warm = 0; warm < kWarmUpWindows;) {
    const double seconds = window(calls);
    if (seconds < rule.window_seconds / 2 && calls < kMostCalls) {
      const double growth = std::clamp(rule.window_seconds / std::max(seconds, 1e-9), 2.0, 16.0);
      calls = std::min(kMostCalls, static_cast<long>(static_cast<double>(calls) * growth));
      continue;
    }
    ++warm;
  }
  std::vector<double> seconds;
  Timing timing;
  while (static_cast<int>(seconds.size()) < rule.most_windows) {
    seconds.push_back(window(calls) / static_cast<double>(calls));
    if (static_cast<int>(seconds.size()) < rule.least_windows) continue;
    timing = summary(seconds, rule.wanted_spread);
    if (timing.is_steady) break;
  }
  return timing;
}

}  // namespace

Timing summary(std::vector<double> seconds, double wanted_spread) {
  std::sort(seconds.begin(), seconds.end());
  Timing timing{.median = quantile(seconds, 0.5),
                .min = seconds.front(),
                .p95 = quantile(seconds, 0.95),
                .max = seconds.back(),
                .windows = seconds.size()};
  timing.spread = (quantile(seconds, 0.75) - quantile(seconds, 0.25)) / timing.median;
  timing.is_steady = timing.spread <= wanted_spread;
  return timing;
}

Timing measure(const std::vector<Device>& devices, const std::function<void()>& call, const StopRule& rule) {
  DeviceWindow on_devices(devices);
  return sample(rule, [&](long calls) {
    on_devices.begin();
    for (long i = 0; i < calls; ++i) call();
    return on_devices.end();
  });
}

Timing measure_on_host(int threads, const std::function<void(int)>& call, const StopRule& rule) {
  using Clock = std::chrono::steady_clock;
  long calls = 0;  // of the next window; 0 ends the threads
  std::barrier meeting(threads);
  const auto serve = [&](int thread) {
    for (;;) {
      meeting.arrive_and_wait();
      const long wanted = calls;
      for (long i = 0; i < wanted; ++i) call(thread);
      meeting.arrive_and_wait();
      if (wanted == 0) return;
    }
  };
  std::vector<std::jthread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(serve, thread);
  const auto window = [&](long wanted) {
    calls = wanted;
    meeting.arrive_and_wait();
    const Clock::time_point begun = Clock::now();
    for (long i = 0; i < wanted; ++i) call(0);
    meeting.arrive_and_wait();
    return std::chrono::duration<double>(Clock::now() - begun).count();
  };
  const Timing timing = sample(rule, window);
  (void)window(0);
  return timing;
}

}  // namespace fanout::bench
