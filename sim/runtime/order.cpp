// SPDX-License-Identifier: Apache-2.0
#include "sim/runtime/order.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/runtime/report.h"

namespace sim::order {
namespace {

// How many operations of each stream come before, by the stream's number.
class Clock {
 public:
  void join(const Clock& other) {
    if (seen_.size() < other.seen_.size()) seen_.resize(other.seen_.size());
    for (std::size_t i = 0; i < other.seen_.size(); ++i) seen_[i] = std::max(seen_[i], other.seen_[i]);
  }
  std::uint64_t tick(std::size_t stream) {
    if (seen_.size() <= stream) seen_.resize(stream + 1);
    return ++seen_[stream];
  }
  bool has_seen(std::size_t stream, std::uint64_t number) const {
    return stream < seen_.size() && seen_[stream] >= number;
  }

 private:
  std::vector<std::uint64_t> seen_;
};

struct Line {  // a stream, also after its end
  int device;
  bool is_legacy, is_blocking;
  const void* handle;
  Clock clock;
};

struct Use {
  std::size_t line;
  std::uint64_t number;  // of the operation in its stream
  const char* what;
  SourceLine place;
};

struct Cell {
  std::uintptr_t end;
  std::optional<Use> write;
  std::vector<Use> reads;  // since that write, the last one of each stream
};

struct Order {
  std::mutex mutex;
  std::vector<Line> lines;
  std::unordered_map<unsigned long long, std::size_t> line_of_id;
  std::unordered_map<const Event*, Clock> events;
  Clock host;
  std::map<std::uintptr_t, Cell> cells;  // by their first byte; they do not overlap
};

Order& order() {
  static auto& instance = *new Order;
  return instance;
}

std::size_t line_of(const Stream& stream) {
  const auto [place, is_new] = order().line_of_id.try_emplace(stream.id, order().lines.size());
  if (is_new) {
    const bool is_legacy = &stream == device_at(stream.device).legacy_stream;
    order().lines.push_back({stream.device, is_legacy, (stream.flags & cudaStreamNonBlocking) == 0, &stream, {}});
  }
  return place->second;
}

// Adds what comes before the next operation of the stream.
std::size_t begin_operation(const Stream& stream) {
  const std::size_t number = line_of(stream);
  Line& line = order().lines[number];
  line.clock.join(order().host);
  if (!line.is_blocking) return number;
  for (const Line& other : order().lines) {
    if (other.device == line.device && other.is_blocking && other.is_legacy != line.is_legacy)
      line.clock.join(other.clock);
  }
  return number;
}

std::string name_of_line(const Line& line) {
  char text[64];
  std::snprintf(text, sizeof text, "%s %p of cuda:%d", line.is_legacy ? "default stream" : "stream", line.handle,
                line.device);
  return text;
}

[[noreturn]] void stop_for_race(const Use& earlier, bool earlier_writes, const Use& later, bool later_writes,
                                std::uintptr_t address) {
  const Line& first = order().lines[earlier.line];
  const Line& second = order().lines[later.line];
  stop(
      "race: %s at %s (%s, %s) and then %s at %s (%s, %s) touch the same memory at %p (%s), and nothing orders the "
      "second "
      "behind the first: %s has not waited for an event recorded in %s behind %s, and the host has not waited for it "
      "either",
      earlier.what, place_text(earlier.place).c_str(), earlier_writes ? "writes" : "reads", name_of_line(first).c_str(),
      later.what, place_text(later.place).c_str(), later_writes ? "writes" : "reads", name_of_line(second).c_str(),
      reinterpret_cast<void*>(address), objects::history(reinterpret_cast<void*>(address)).c_str(),
      name_of_line(second).c_str(), name_of_line(first).c_str(), earlier.what);
}

// Cuts the cell that holds the address in two there.
void cut(std::uintptr_t address) {
  auto after = order().cells.upper_bound(address);
  if (after == order().cells.begin()) return;
  --after;
  auto& [begin, cell] = *after;
  if (begin == address || cell.end <= address) return;
  order().cells.emplace(address, cell);
  cell.end = address;
}

void check_and_note(Cell& cell, std::uintptr_t begin, const Use& use, bool writes) {
  const Clock& clock = order().lines[use.line].clock;
  const auto require = [&](const Use& earlier, bool earlier_writes) {
    if (!clock.has_seen(earlier.line, earlier.number)) stop_for_race(earlier, earlier_writes, use, writes, begin);
  };
  if (cell.write) require(*cell.write, true);
  if (writes) {
    for (const Use& read : cell.reads) require(read, false);
    cell.write = use;
    cell.reads.clear();
    return;
  }
  std::erase_if(cell.reads, [&](const Use& read) { return read.line == use.line; });
  cell.reads.push_back(use);
}

void touch(std::uintptr_t begin, std::size_t bytes, const Use& use, bool writes) {
  auto& cells = order().cells;
  const std::uintptr_t end = begin + bytes;
  cut(begin);
  cut(end);
  auto next = cells.lower_bound(begin);
  for (std::uintptr_t at = begin; at < end;) {
    if (next == cells.end() || next->first > at) {  // nobody has touched what lies before the next cell
      const std::uintptr_t gap_end = next == cells.end() ? end : std::min(end, next->first);
      next = cells.emplace_hint(next, at, Cell{gap_end, {}, {}});
    }
    check_and_note(next->second, at, use, writes);
    at = next->second.end;
    ++next;
  }
}

}  // namespace

void operation(const Stream& stream, const char* what, const Access* accesses, int count) {
  const std::lock_guard lock(order().mutex);
  const std::size_t line = begin_operation(stream);
  const Use use{line, order().lines[line].clock.tick(line), what, call_place};
  for (int i = 0; i < count; ++i) {
    const Access& access = accesses[i];
    if (arena_index(access.pointer) >= arena_count || access.bytes == 0) continue;
    touch(reinterpret_cast<std::uintptr_t>(access.pointer), access.bytes, use, access.write);
  }
}

void allocated(const void* pointer, std::size_t bytes, const Stream* stream) {
  const std::lock_guard lock(order().mutex);
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  cut(begin);
  cut(begin + bytes);
  auto& cells = order().cells;
  cells.erase(cells.lower_bound(begin), cells.lower_bound(begin + bytes));
  if (stream == nullptr) return;
  const std::size_t line = begin_operation(*stream);
  touch(begin, bytes, {line, order().lines[line].clock.tick(line), "cudaMallocAsync", call_place}, true);
}

void recorded(const Event& event, const Stream& stream) {
  const std::lock_guard lock(order().mutex);
  const std::size_t line = begin_operation(stream);
  order().lines[line].clock.tick(line);
  order().events[&event] = order().lines[line].clock;
}

void stream_waits(const Stream& stream, const Event& event) {
  const std::lock_guard lock(order().mutex);
  const std::size_t line = begin_operation(stream);
  const auto recorded = order().events.find(&event);
  if (recorded != order().events.end()) order().lines[line].clock.join(recorded->second);
}

void flows(const Stream& from, const Stream& to) {
  const std::lock_guard lock(order().mutex);
  const std::size_t source = begin_operation(from), target = begin_operation(to);
  order().lines[target].clock.join(order().lines[source].clock);
}

void host_waited(const Stream& stream) {
  const std::lock_guard lock(order().mutex);
  order().host.join(order().lines[line_of(stream)].clock);
}

void host_waited(const Event& event) {
  const std::lock_guard lock(order().mutex);
  const auto recorded = order().events.find(&event);
  if (recorded != order().events.end()) order().host.join(recorded->second);
}

void forget(const Event& event) {
  const std::lock_guard lock(order().mutex);
  order().events.erase(&event);
}

void host_waited(const Device& device) {
  const std::lock_guard lock(order().mutex);
  for (const Line& line : order().lines) {
    if (line.device == device.index) order().host.join(line.clock);
  }
}

void host_waited_for_all() {
  const std::lock_guard lock(order().mutex);
  for (const Line& line : order().lines) order().host.join(line.clock);
}

}  // namespace sim::order
