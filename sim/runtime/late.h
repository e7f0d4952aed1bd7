// SPDX-License-Identifier: Apache-2.0
// FANOUT_SIM_MODE=late: operations wait in their streams and run as late as the API allows, when the host waits for
// them or asks whether they are done. Which stream goes on first is drawn from FANOUT_SIM_SEED. With a seed that is a
// multiple of 3 nothing runs that nobody waits for, so code that forgets to wait fails every time; with others some
// operations run early, in ever other orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace sim {
struct Stream;
struct Device;
}  // namespace sim

namespace sim::late {

/// The end of an operation. Tickets grow over the whole machine; 0 has always passed.
struct Point {
  Stream* stream = nullptr;
  std::uint64_t ticket = 0;
};

/// Host memory that an operation reads or writes when it runs.
struct HostRange {
  const void* begin = nullptr;
  std::size_t bytes = 0;
};

/// Puts `work` at the end of the stream, behind what the default stream's rules ask for and behind `after`.
Point enqueue(Stream& stream, std::function<void()> work, std::vector<Point> after = {}, HostRange host = {});

/// The same in several streams at once: `work` runs once, when all of them have come to it.
void enqueue_joint(std::span<Stream* const> streams, std::function<void()> work);

/// The end of what is in the stream now.
Point end_of(const Stream& stream);
bool has_passed(Point point);

/// Runs what must run for `point` to pass, in an order that the streams, the waits and the seed allow.
void run_until(Point point);
void run_stream(const Stream& stream);
void run_device(const Device& device);
void run_all();

/// Runs one operation on the way to `point`, so that a host that polls gets there.
void run_one_towards(Point point);

/// Runs the operations that still have to do with this host memory.
void run_users_of(HostRange host);

/// Ends a stream: what is in it runs first.
void close(Stream& stream);

}  // namespace sim::late
