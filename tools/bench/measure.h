// SPDX-License-Identifier: Apache-2.0
// How `fanout bench` takes time: windows of many calls between two events, repeated until they agree.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "runtime/device/device.h"

namespace fanout::bench {

/// When measuring ends. A window is as many calls as take `window_seconds`; windows are taken until their spread is at
/// most `wanted_spread`, between `least_windows` and `most_windows` of them.
struct StopRule {
  double window_seconds = 0.02;
  int least_windows = 9, most_windows = 61;
  double wanted_spread = 0.03;
};

/// Seconds for one call, over all windows.
struct Timing {
  double median = 0, min = 0, p95 = 0, max = 0;
  /// The distance between the quartiles, as a part of the median.
  double spread = 0;
  std::size_t windows = 0;
  /// False if the windows never agreed as well as was wanted: something else used the machine.
  bool is_steady = false;
};

/// The numbers of a list of seconds, at least one.
Timing summary(std::vector<double> seconds, double wanted_spread);

/// Times `call`, which queues work on the compute streams of `devices` or does it at once. All devices begin a window
/// together, behind an event of the first one, which ends it once all are done. Two windows go by first, so that
/// nothing is measured that happens once.
Timing measure(const std::vector<Device>& devices, const std::function<void()>& call, const StopRule& rule);

/// The same for work of the host alone, on `threads` threads that begin together: call(thread).
Timing measure_on_host(int threads, const std::function<void(int)>& call, const StopRule& rule);

}  // namespace fanout::bench
