// SPDX-License-Identifier: Apache-2.0
#include "runtime/trace/stages.h"

#include <algorithm>
#include <exception>
#include <numeric>

#include "runtime/device/context.h"
#include "runtime/device/error.h"
#include "runtime/device/warning.h"

namespace fanout {

const char* name(Stage stage) {
  constexpr const char* kNames[kStages] = {"waiting", "scatter",  "replicate", "forward", "gather",
                                           "loss",    "backward", "reduce",    "update"};
  return kNames[static_cast<std::size_t>(stage)];
}

double StageTimes::total() const {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

StageRecorder::StageRecorder(const std::vector<Device>& devices) {
  for (const Device device : devices) timelines_.push_back({device, {}});
  StageRecorder* none = nullptr;
  if (!detail::stage_recorder.compare_exchange_strong(none, this, std::memory_order_acq_rel)) {
    throw InvalidArgument("stages are being recorded already; one StageRecorder at a time");
  }
}

StageRecorder::~StageRecorder() {
  detail::stage_recorder.store(nullptr, std::memory_order_release);
}

StageRecorder::Timeline* StageRecorder::of(Device device) {
  for (Timeline& timeline : timelines_) {
    if (timeline.device == device) return &timeline;
  }
  return nullptr;
}

// Returns the stage before.
Stage StageRecorder::enter(Timeline& timeline, Stage stage) {
  const Stage before = timeline.used == 0 ? Stage::waiting : timeline.marks[timeline.used - 1].stage;
  if (timeline.used == timeline.marks.size()) {
    timeline.marks.push_back({std::make_unique<Event>(timeline.device, EventTime::kept), stage, {}});
  }
  Mark& mark = timeline.marks[timeline.used++];
  mark.stage = stage;
  mark.shares = {};
  mark.event->record(compute_stream(timeline.device));
  return before;
}

void StageRecorder::start() {
  for (const Timeline& timeline : timelines_) synchronize(timeline.device);
  for (Timeline& timeline : timelines_) {
    timeline.used = 0;
    (void)enter(timeline, Stage::waiting);
  }
  for (const Timeline& timeline : timelines_) timeline.marks[0].event->synchronize();
}

std::vector<StageTimes> StageRecorder::stop() {
  for (Timeline& timeline : timelines_) (void)enter(timeline, Stage::waiting);
  std::vector<StageTimes> times;
  for (Timeline& timeline : timelines_) {
    synchronize(timeline.device);
    StageTimes& sums = times.emplace_back();
    sums.device = timeline.device;
    for (std::size_t i = 0; i + 1 < timeline.used; ++i) {
      const Mark& mark = timeline.marks[i];
      const double seconds = timeline.marks[i + 1].event->seconds_since(*mark.event);
      const double all = std::accumulate(mark.shares.of.begin(), mark.shares.of.end(), 0.0);
      if (all == 0) sums.seconds[static_cast<std::size_t>(mark.stage)] += seconds;
      for (std::size_t stage = 0; all > 0 && stage < kStages; ++stage) {
        sums.seconds[stage] += seconds * mark.shares.of[stage] / all;
      }
    }
  }
  return times;
}

void StageScope::begin(StageRecorder& recorder, Device device, Stage stage) {
  timeline_ = recorder.of(device);
  if (timeline_ == nullptr) return;
  before_ = StageRecorder::enter(*timeline_, stage);
  mark_ = timeline_->used - 1;
}

void StageScope::end() noexcept {
  try {
    (void)StageRecorder::enter(*timeline_, before_);
  } catch (const std::exception& error) {
    warn(error.what());  // a destructor throws nothing; the next call on the device will
  }
}

}  // namespace fanout
