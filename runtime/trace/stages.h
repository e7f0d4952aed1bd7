// SPDX-License-Identifier: Apache-2.0
// Where a step's time goes: the compute stream of each device is at any moment in one stage, and marks the changes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/device/stream.h"

namespace fanout {

/// What a device does in a step of data-parallel training; `waiting` is all that is nothing else.
enum class Stage : std::uint8_t { waiting, scatter, replicate, forward, gather, loss, backward, reduce, update };
inline constexpr std::size_t kStages = 9;
const char* name(Stage stage);

/// How much of something belongs to each stage; all 0: nothing was said.
struct StageShares {
  std::array<double, kStages> of{};

  void add(Stage stage, double share) { of[static_cast<std::size_t>(stage)] += share; }
};

/// Seconds of one device, by stage.
struct StageTimes {
  Device device = Device::host();
  std::array<double, kStages> seconds{};

  double in(Stage stage) const { return seconds[static_cast<std::size_t>(stage)]; }
  /// All of them.
  double total() const;
};

/// Collects the stages of some devices while it lives; one at a time. A device is in no stage but the innermost
/// StageScope's, so the times of a device add up to the time between start and stop. Costs each scope two events.
class StageRecorder {
 public:
  explicit StageRecorder(const std::vector<Device>& devices);
  ~StageRecorder();
  StageRecorder(const StageRecorder&) = delete;
  StageRecorder& operator=(const StageRecorder&) = delete;

  /// Begins anew, on all devices at once; waits for what they do.
  void start();
  /// Waits for the devices; the times since start, in the order of the devices.
  std::vector<StageTimes> stop();

 private:
  friend class StageScope;
  struct Mark {
    std::unique_ptr<Event> event;
    Stage stage;         // from here on
    StageShares shares;  // or in these proportions, if there are any
  };
  struct Timeline {
    Device device;
    std::vector<Mark> marks;  // the first `used` count
    std::size_t used = 0;
  };
  Timeline* of(Device device);
  static Stage enter(Timeline& timeline, Stage stage);

  std::vector<Timeline> timelines_;
};

namespace detail {
inline std::atomic<StageRecorder*> stage_recorder{nullptr};
}

/// What the compute stream of `device` gets while this lives belongs to `stage`. One thread at a time for a device.
class StageScope {
 public:
  StageScope(Device device, Stage stage) {
    StageRecorder* const recorder = detail::stage_recorder.load(std::memory_order_acquire);
    if (recorder != nullptr) [[unlikely]]
      begin(*recorder, device, stage);
  }
  ~StageScope() {
    if (timeline_ != nullptr) [[unlikely]]
      end();
  }
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

  /// False where nobody looks: then nothing needs to be measured.
  bool is_recorded() const { return timeline_ != nullptr; }
  /// Says that the time from this scope's begin to its end, or to a scope inside, was spent in these proportions: for
  /// work whose stages go through each other.
  void divide(const StageShares& shares) {
    if (timeline_ != nullptr) timeline_->marks[mark_].shares = shares;
  }

 private:
  void begin(StageRecorder& recorder, Device device, Stage stage);
  void end() noexcept;

  StageRecorder::Timeline* timeline_ = nullptr;
  std::size_t mark_ = 0;
  Stage before_ = Stage::waiting;
};

}  // namespace fanout
