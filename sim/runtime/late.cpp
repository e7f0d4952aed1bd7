// SPDX-License-Identifier: Apache-2.0
#include "sim/runtime/late.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "sim/runtime/machine.h"
#include "sim/runtime/report.h"

namespace sim::late {

struct Operation {
  std::function<void()> work;  // empty: only waits
  std::vector<Point> after;
  HostRange host;
  std::uint64_t ticket = 0;
};

struct Queue {
  std::deque<Operation> operations;
  bool first_runs = false;  // some host thread is at it
};

namespace {

constexpr std::size_t kMostPending = 1024;  // of one stream; a real launch queue is full some day as well

// splitmix64
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::size_t below(std::size_t count) {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return static_cast<std::size_t>((z ^ (z >> 31)) % count);
  }

 private:
  std::uint64_t state_;
};

// All operations of all streams. Whichever host thread waits runs them, without the lock.
class Scheduler {
 public:
  using Lock = std::unique_lock<std::mutex>;

  explicit Scheduler(std::uint64_t seed) : dice_(seed), strays_(seed % 3 * 4) {}

  Lock lock() { return Lock(mutex_); }

  Point add(Stream& stream, Operation operation) {
    ++calls_;
    add_default_stream_waits(stream, operation.after);
    if (!stream.late_queue) stream.late_queue = new Queue;
    if (stream.late_queue->operations.empty()) busy_.push_back(&stream);
    stream.late_end = operation.ticket = ++last_ticket_;
    stream.late_queue->operations.push_back(std::move(operation));
    return {&stream, stream.late_end};
  }

  // The next operation of the stream that must run before another one may be queued, if any.
  Point first_of_too_many(const Stream& stream) const {
    const std::deque<Operation>& operations = stream.late_queue->operations;
    return operations.size() > kMostPending ? Point{const_cast<Stream*>(&stream), operations.front().ticket} : Point{};
  }

  bool passed(Point point) const { return !point.stream || point.ticket <= point.stream->late_done; }

  void run_until(Point point, Lock& held) {
    while (!passed(point)) {
      if (!run_next(point, held)) changed_.wait(held);
    }
  }

  // Runs one operation: usually one that the point needs, with some seeds now and then any that could run. False if
  // other threads are at all of those.
  bool run_next(Point point, Lock& held) {
    ++calls_;
    std::vector<Stream*> ready, seen;
    bool somebody_runs = false;
    if (strays_ > 0 && dice_.below(16) < strays_) {
      for (Stream* stream : busy_) {
        if (can_run(*stream->late_queue)) ready.push_back(stream);
      }
    }
    if (ready.empty()) collect(point.stream, seen, ready, somebody_runs);
    if (ready.empty() && !somebody_runs) stop("late mode: operations of several streams wait for each other");
    if (ready.empty()) return false;
    run_first(*ready[dice_.below(ready.size())], held);
    return true;
  }

  std::vector<Point> ends(int device) const {
    std::vector<Point> points;
    for (Stream* stream : busy_) {
      if (device < 0 || stream->device == device) points.push_back({stream, stream->late_end});
    }
    return points;
  }

  std::vector<Point> users_of(HostRange host) const {
    const auto overlap = [&](HostRange other) {
      const auto x = reinterpret_cast<std::uintptr_t>(host.begin), y = reinterpret_cast<std::uintptr_t>(other.begin);
      return host.bytes > 0 && other.bytes > 0 && x < y + other.bytes && y < x + host.bytes;
    };
    std::vector<Point> points;
    for (Stream* stream : busy_) {
      for (const Operation& operation : stream->late_queue->operations) {
        if (overlap(operation.host)) points.push_back({stream, operation.ticket});
      }
    }
    return points;
  }

  std::uint64_t calls() const { return calls_; }

 private:
  bool can_run(const Queue& queue) const {
    const std::vector<Point>& after = queue.operations.front().after;
    return !queue.first_runs && std::all_of(after.begin(), after.end(), [&](Point point) { return passed(point); });
  }

  // Streams whose next operation can run and is needed for `stream` to go on.
  void collect(Stream* stream, std::vector<Stream*>& seen, std::vector<Stream*>& ready, bool& somebody_runs) const {
    if (std::find(seen.begin(), seen.end(), stream) != seen.end()) return;
    seen.push_back(stream);
    const Queue& queue = *stream->late_queue;
    somebody_runs = somebody_runs || queue.first_runs;
    if (can_run(queue)) ready.push_back(stream);
    for (const Point& point : queue.operations.front().after) {
      if (!passed(point)) collect(point.stream, seen, ready, somebody_runs);
    }
  }

  void run_first(Stream& stream, Lock& held) {
    Queue& queue = *stream.late_queue;
    queue.first_runs = true;
    Operation& operation = queue.operations.front();  // stays in place while others are added
    held.unlock();
    if (operation.work) operation.work();
    held.lock();
    stream.late_done = operation.ticket;
    queue.operations.pop_front();
    queue.first_runs = false;
    if (queue.operations.empty()) std::erase(busy_, &stream);
    changed_.notify_all();
  }

  // The default stream waits for all blocking streams of its device, and they for it.
  void add_default_stream_waits(const Stream& stream, std::vector<Point>& after) const {
    const auto is_blocking = [](const Stream& each) { return (each.flags & cudaStreamNonBlocking) == 0; };
    Stream* const legacy = device_at(stream.device).legacy_stream;
    if (&stream != legacy) {
      if (is_blocking(stream)) after.push_back({legacy, legacy->late_end});
      return;
    }
    for (Stream* other : busy_) {
      if (other->device == stream.device && other != legacy && is_blocking(*other))
        after.push_back({other, other->late_end});
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Dice dice_;
  const std::size_t strays_;  // of 16 steps
  std::uint64_t calls_ = 0, last_ticket_ = 0;
  std::vector<Stream*> busy_;
};

Scheduler& scheduler();

// A real machine goes on while the host does something else. Only a host that has called nothing for a while, because
// it waits for a flag that an operation sets, may notice: then everything runs.
[[noreturn]] void run_when_idle() {
  for (std::uint64_t seen = 0;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    Scheduler::Lock held = scheduler().lock();
    const std::uint64_t calls = scheduler().calls();
    if (seen == calls) {
      for (const Point& end : scheduler().ends(-1)) scheduler().run_until(end, held);
    }
    seen = calls;
  }
}

Scheduler& scheduler() {
  static Scheduler& made = *new Scheduler(machine->settings.seed);
  static const bool watched = (std::thread(run_when_idle).detach(), true);
  (void)watched;
  return made;
}

void run_all_of(const std::vector<Point>& points, Scheduler::Lock& held) {
  for (const Point& point : points) scheduler().run_until(point, held);
}

}  // namespace

Point enqueue(Stream& stream, std::function<void()> work, std::vector<Point> after, HostRange host) {
  Scheduler::Lock held = scheduler().lock();
  const Point end = scheduler().add(stream, {std::move(work), std::move(after), host});
  scheduler().run_until(scheduler().first_of_too_many(stream), held);
  return end;
}

void enqueue_joint(std::span<Stream* const> streams, std::function<void()> work) {
  const Scheduler::Lock held = scheduler().lock();
  std::vector<Point> others;
  for (Stream* stream : streams.subspan(1)) others.push_back(scheduler().add(*stream, {}));
  const Point end = scheduler().add(*streams[0], {std::move(work), std::move(others), {}});
  for (Stream* stream : streams.subspan(1)) scheduler().add(*stream, {{}, {end}, {}});
}

Point end_of(const Stream& stream) {
  const Scheduler::Lock held = scheduler().lock();
  return {const_cast<Stream*>(&stream), stream.late_end};
}

bool has_passed(Point point) {
  const Scheduler::Lock held = scheduler().lock();
  return scheduler().passed(point);
}

void run_until(Point point) {
  Scheduler::Lock held = scheduler().lock();
  scheduler().run_until(point, held);
}

void run_stream(const Stream& stream) {
  run_until(end_of(stream));
}

void run_device(const Device& device) {
  Scheduler::Lock held = scheduler().lock();
  run_all_of(scheduler().ends(device.index), held);
}

void run_all() {
  Scheduler::Lock held = scheduler().lock();
  run_all_of(scheduler().ends(-1), held);
}

void run_one_towards(Point point) {
  Scheduler::Lock held = scheduler().lock();
  if (!scheduler().passed(point)) (void)scheduler().run_next(point, held);
}

void run_users_of(HostRange host) {
  Scheduler::Lock held = scheduler().lock();
  run_all_of(scheduler().users_of(host), held);
}

void close(Stream& stream) {
  run_stream(stream);
  const Scheduler::Lock held = scheduler().lock();
  delete std::exchange(stream.late_queue, nullptr);
}

}  // namespace sim::late
