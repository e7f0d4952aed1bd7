// SPDX-License-Identifier: Apache-2.0
// FANOUT_SIM_RACES: what is ordered with what. Every operation of a stream gets a vector clock when it is queued, which
// knows the operations that streams, events, the default stream's rules and waits of the host put before it. Two
// operations that touch the same memory, one of them writing, with no order between them are a race: the program stops
// and says which two, and what would order them. The same in eager and in late mode, since nothing needs to run.
//
// The host's threads count as one: what one of them has waited for is known to all, since the locks and joins between
// them cannot be seen. What the host itself reads and writes in pinned memory cannot be seen either; late mode spoils
// it.
#pragma once

#include <cstddef>

#include "sim/runtime/machine.h"
#include "sim/submit.h"

namespace sim::order {

inline bool is_on() {
  return machine->settings.races;
}

// Only where is_on().

/// The next operation of the stream, with what it touches (of host memory only what is pinned by allocation).
void operation(const Stream& stream, const char* what, const Access* accesses, int count);
/// Memory that is given out: whole, and usable from here in the stream on; null: in all streams.
void allocated(const void* pointer, std::size_t bytes, const Stream* stream);

void recorded(const Event& event, const Stream& stream);
void forget(const Event& event);
void stream_waits(const Stream& stream, const Event& event);
/// The next operation of `to` comes behind what is in `from`.
void flows(const Stream& from, const Stream& to);

void host_waited(const Stream& stream);
void host_waited(const Event& event);
void host_waited(const Device& device);
void host_waited_for_all();

}  // namespace sim::order
