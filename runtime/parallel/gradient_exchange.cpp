// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/gradient_exchange.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>

#include "runtime/device/context.h"
#include "runtime/device/warning.h"
#include "runtime/device/workers.h"
#include "runtime/parallel/gradient_bucket.h"
#include "runtime/trace/stages.h"

namespace fanout {
namespace {

// Of each array; sum, update and copies of a piece then find it in a second-level cache.
constexpr std::size_t kPieceBytes = std::size_t{128} << 10;

// Tells `took` the seconds of its scope.
class Timed {
 public:
  explicit Timed(const std::function<void(double)>& took) : took_(took) {}
  ~Timed() {
    if (took_) took_(std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count());
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  const std::function<void(double)>& took_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

// Where the time of a piece goes, taken only where somebody records it.
class LapTimes {
 public:
  explicit LapTimes(bool wanted) : wanted_(wanted) {
    if (wanted_) last_ = Clock::now();
  }
  void end(Stage stage) {
    if (!wanted_) return;
    const Clock::time_point now = Clock::now();
    spent_.add(stage, std::chrono::duration<double>(now - last_).count());
    last_ = now;
  }
  void add_to(StageShares& sum, std::mutex& lock) const {
    if (!wanted_) return;
    const std::lock_guard guard(lock);
    for (std::size_t stage = 0; stage < kStages; ++stage) sum.of[stage] += spent_.of[stage];
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool wanted_;
  Clock::time_point last_{};
  StageShares spent_;
};

}  // namespace

GradientExchange::GradientExchange(ReplicaSet& set)
    : set_(&set), primary_(set.devices()[0]), by_threads_(works_on_host_threads(primary_)) {
  ranges_.reserve(set.parameters().buckets().size());
}

void GradientExchange::begin(const BucketOwner& owner) {
  make();
  members_ = owner.members;
  communicator_ = owner.communicator;
  lanes_ = owner.lanes;
  took_ = owner.took;
}

void GradientExchange::leave() noexcept {
  try {
    make();
  } catch (const std::exception& error) {
    warn(error.what());
  }
  ranges_.clear();
  set_ = nullptr;
}

bool GradientExchange::add(std::size_t begin, std::size_t end, DType dtype, char* primary) {
  Range range{begin, end, dtype, primary - begin, nullptr};
  if (!ranges_.empty() && ranges_.front().base != range.base) return false;
  if (!by_threads_) {
    sum(range, begin, end, *communicator_, Behind::computation);
    range.summed = &set_->parameters().event(ranges_.size());
    range.summed->record(communicator_->root_stream());
  }
  ranges_.push_back(range);
  return true;
}

void GradientExchange::sum(const Range& range, std::size_t begin, std::size_t end, Communicator& through,
                           Behind behind) const {
  const void* places[kMaxDevices];
  places[0] = range.base + begin;
  for (std::size_t rank = 1; rank < members_.size(); ++rank) {
    places[rank] = static_cast<const char*>(set_->parameters().gradients(members_[rank])) + begin;
  }
  through.reduce({places, members_.size()}, range.base + begin,
                 static_cast<std::int64_t>((end - begin) / size_of(range.dtype)), range.dtype, behind);
}

void GradientExchange::send(std::size_t begin, std::size_t end, Communicator& through, Behind behind) const {
  set_->parameters().send(members_, begin, end, through, behind);
}

template <class Piece>
void GradientExchange::in_pieces(std::size_t begin, std::size_t end, const Piece& piece) const {
  const Timed timed(took_);
  const std::size_t count = (end - begin + kPieceBytes - 1) / kPieceBytes;
  const int lanes = std::min(lanes_, static_cast<int>(count));
  std::vector<Communicator*> channels;
  for (int lane = 0; lane < lanes; ++lane) channels.push_back(&set_->communicator(members_, lane));
  const auto run = [&](int lane, int used) {
    const auto number = static_cast<std::size_t>(lane), of = static_cast<std::size_t>(used);
    Communicator& channel = *channels[number];
    const DeviceGuard guard(primary_);
    channel.wait_for_computation();
    for (std::size_t i = count * number / of; i < count * (number + 1) / of; ++i) {
      const std::size_t from = begin + i * kPieceBytes;
      piece(channel, from, std::min(end, from + kPieceBytes));
    }
  };
  try {
    Workers::of_process().run(lanes, run);
  } catch (...) {
    for (Communicator* channel : channels) channel->wait_for_collectives();
    throw;
  }
  for (Communicator* channel : channels) channel->wait_for_collectives();
}

// Calls `work`. Where it fails a device or the communicator is broken: nothing is tried again.
template <class Work>
void GradientExchange::once(const Work& work) {
  try {
    work();
  } catch (...) {
    ranges_.clear();
    throw;
  }
}

void GradientExchange::make() {
  if (ranges_.empty()) return;
  const StageScope stage(primary_, Stage::reduce);
  once([&] {
    if (!by_threads_) return communicator_->wait_for_collectives();
    for (const Range& range : ranges_) {
      in_pieces(range.begin, range.end, [&](Communicator& channel, std::size_t begin, std::size_t end) {
        sum(range, begin, end, channel, Behind::collectives);
      });
    }
  });
  ranges_.clear();
}

void GradientExchange::make_and_update(const char* gradients, std::size_t bytes, const Update& update) {
  if (ranges_.empty()) return update(compute_stream(primary_), 0, bytes);
  const auto first = static_cast<std::size_t>(gradients - ranges_.front().base);
  const std::size_t last = first + bytes;
  once([&] {
    if (by_threads_) {
      update_in_pieces(first, last, update);
    } else {
      update_as_sums_arrive(first, last, update);
    }
  });
  forget(first, last);
  set_->parameters().note_sent(members_, first, last);
}

void GradientExchange::update_in_pieces(std::size_t first, std::size_t last, const Update& update) {
  StageScope stage(primary_, Stage::update);
  std::mutex lock;
  StageShares spent;
  in_pieces(first, last, [&](Communicator& channel, std::size_t begin, std::size_t end) {
    LapTimes laps(stage.is_recorded());
    for (const Range& range : ranges_) {
      const std::size_t from = std::max(begin, range.begin), to = std::min(end, range.end);
      if (from < to) sum(range, from, to, channel, Behind::collectives);
    }
    laps.end(Stage::reduce);
    update(channel.root_stream(), begin - first, end - first);
    laps.end(Stage::update);
    send(begin, end, channel, Behind::collectives);
    laps.end(Stage::replicate);
    laps.add_to(spent, lock);
  });
  stage.divide(spent);
}

// The sum of a range is behind its event; the update of the next one runs beside the broadcast of this one.
void GradientExchange::update_as_sums_arrive(std::size_t first, std::size_t last, const Update& update) {
  const StreamView stream = compute_stream(primary_);
  std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  const auto update_and_send = [&](std::size_t begin, std::size_t end) {
    if (begin == end) return;
    update(stream, begin - first, end - first);
    send(begin, end, *communicator_, Behind::computation);
  };
  std::size_t done = first;
  for (const Range& range : ranges_) {
    const std::size_t from = std::clamp(range.begin, done, last);
    if (std::min(range.end, last) <= from) continue;
    update_and_send(done, from);  // what lies before it has its sum already
    {
      const StageScope waiting_for_sum(primary_, Stage::reduce);
      FANOUT_CHECK(cudaStreamWaitEvent(stream.handle, range.summed->handle(), 0));
    }
    done = from;
    const auto next =
        std::find_if(ranges_.begin(), ranges_.end(), [&](const Range& other) { return other.begin > from; });
    const std::size_t end = next == ranges_.end() ? last : std::min(next->begin, last);
    update_and_send(done, end);
    done = end;
  }
  update_and_send(done, last);
  const StageScope waiting_for_copies(primary_, Stage::replicate);
  communicator_->wait_for_collectives();
}

// Bytes `begin` to `end` - 1 are summed.
void GradientExchange::forget(std::size_t begin, std::size_t end) {
  std::vector<Range> left;
  left.reserve(ranges_.size());
  for (const Range& range : ranges_) {
    Range before = range, behind = range;
    before.end = std::min(range.end, begin);
    behind.begin = std::max(range.begin, end);
    if (before.begin < before.end) left.push_back(before);
    if (behind.begin < behind.end) left.push_back(behind);
  }
  ranges_ = std::move(left);
}

}  // namespace fanout
