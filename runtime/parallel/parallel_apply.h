// SPDX-License-Identifier: Apache-2.0
// Runs the replicas, in lanes beside each other or one after another, and says whose failure it was.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <vector>

#include "runtime/device/device.h"

namespace fanout {

/// How replicas are run. `measure` tries both for a few steps and keeps the faster; the results are the same to the
/// bit.
enum class ParallelApply { measure, inline_, workers };

/// Chooses the number of lanes for steps of one shape by measuring them.
class LaneChooser {
 public:
  LaneChooser(ParallelApply mode, int lanes) : mode_(mode), lanes_(lanes) {}

  /// Lanes for the next step, whose largest chunk has `rows` rows, which uses `replicas` replicas, and which builds a
  /// graph for backward or not.
  int begin_step(std::int64_t rows, int replicas, bool with_graph);
  /// Adds `seconds` of work to the step that begin_step began.
  void add(double seconds) { current_seconds_ += seconds; }

 private:
  struct Trial {
    std::int64_t rows = 0;
    int replicas = 0;
    bool with_graph = false;
    int steps = 0;
    double best_inline = 1e300, best_workers = 1e300;
    bool ran_on_workers = false;
  };
  static bool on_workers(const Trial& trial);

  ParallelApply mode_;
  int lanes_;
  std::vector<Trial> trials_;
  Trial* current_ = nullptr;
  double current_seconds_ = 0;
};

/// Calls run(replica) for each replica, on its device, spread over `lanes` lanes; the caller's grad mode holds in all
/// of them. All replicas are tried. Then the failure of the lowest one is rethrown with its own type and "replica 1 on
/// cuda:2: " before its text; a type that this cannot be added to is rethrown as it is.
void parallel_apply(const std::vector<Device>& devices, std::size_t replicas, int lanes,
                    const std::function<void(std::size_t)>& run);

}  // namespace fanout
