// SPDX-License-Identifier: Apache-2.0
// Where calls ask whether a fault was requested for them. Devices are those of the process; a request names those of
// the machine. A fault that strikes says so on standard error, once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/host_api.h"

namespace sim::faults {

enum class Kind : std::uint8_t { alloc, launch, copy, sticky, down, slow, corrupt, corrupt_once, init, stall, die };

inline constexpr int kHost = -1;  // in place of a device: pinned memory

struct Fault {
  Kind kind{};
  int first = 0, second = 0;  // a device of the machine or kHost; a pair for the kinds of links, else the same twice
  std::uint64_t number = 1;   // which occurrence it strikes, from 1
  std::string text;           // as it was requested
  std::uint64_t seen = 0;
  bool was_said = false;
};

/// The faults of such a list; none where it is not understood.
std::optional<std::vector<Fault>> parse(const char* text);
/// What a list may hold, for errors.
extern const char* const kAllowed;
/// In place of those before.
void replace(std::vector<Fault> faults);

inline std::atomic<bool> any_requested{false};
inline bool any() {
  return any_requested.load(std::memory_order_relaxed);
}

/// One more such event at the device (or kHost): whether a fault strikes it.
bool strikes_counted(Kind kind, int device);
inline bool strikes(Kind kind, int device) {
  return any() && strikes_counted(kind, device);
}

/// What becomes of one more transfer between two devices.
struct Transfer {
  bool is_down = false, is_slow = false, is_corrupt = false;
  /// What the work of the transfer does last: waits 5 ms where the link is slow, flips a bit of the `bytes` bytes that
  /// have arrived at `target` where it corrupts.
  void finish(void* target, std::size_t bytes) const;
};
Transfer transfer_counted(int a, int b);
inline Transfer transfer(int a, int b) {
  return any() ? transfer_counted(a, b) : Transfer{};
}
/// Whether the link has gone down; not counted.
bool is_down(int a, int b);

/// One more operation in a queue of the device: gives the device its sticky error where one was requested; such an
/// operation does not run. True if so.
bool breaks_counted(int device);
inline bool breaks(int device) {
  return any() && breaks_counted(device);
}

}  // namespace sim::faults
