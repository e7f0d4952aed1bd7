// SPDX-License-Identifier: Apache-2.0
// Which memory a device's kernels can reach, and what a fault does.
#pragma once

#include "sim/runtime/machine.h"
#include "sim/submit.h"

namespace sim {

/// Why a device's kernel may not touch `access`; null if it may. Everything that is not plainly the device's own
/// memory.
const char* unreachable(const Device& device, const Access& access);

/// The first access that the device cannot reach, or -1.
inline int first_unreachable(const Device& device, const Access* accesses, int count) {
  const bool check_live = machine->settings.poison;
  for (int i = 0; i < count; ++i) {
    const bool own = arena_index(accesses[i].pointer) == static_cast<std::uintptr_t>(device.index);
    if ((own && !check_live) || !accesses[i].pointer) [[likely]]
      continue;
    if (unreachable(device, accesses[i])) return i;
  }
  return -1;
}

/// Gives the device the sticky error 700 and says why on stderr.
[[gnu::cold]] void fault(Device& device, const void* stream, const char* operation, int argument, const Access& access);

/// True if the stream's device can reach all of them; else the device has a fault.
inline bool all_reachable(const Stream& stream, const char* operation, const Access* accesses, int count) {
  Device& device = device_at(stream.device);
  const int bad = first_unreachable(device, accesses, count);
  if (bad < 0) [[likely]]
    return true;
  fault(device, &stream, operation, bad, accesses[bad]);
  return false;
}

/// Whether the host range is pinned by cudaHostRegister.
bool is_registered(const void* pointer);

}  // namespace sim
