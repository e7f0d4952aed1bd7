// SPDX-License-Identifier: Apache-2.0
// What the environment says about the simulated machine: FANOUT_SIM_* and CUDA_VISIBLE_DEVICES, read once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/runtime/faults.h"

namespace sim {

inline constexpr int kMaxDevices = 16;

struct Settings {
  int devices = 4;                                       // FANOUT_SIM_DEVICES: 0 to 16 devices in the machine
  std::vector<std::uint64_t> memory_bytes{16ull << 30};  // FANOUT_SIM_MEMORY: one for all devices, or one for each
  bool poison = false;                                   // FANOUT_SIM_POISON: NaN on every malloc and free
  bool protect = false;                                  // FANOUT_SIM_PROTECT: device memory is closed to the host
  bool peer_access = true;                               // FANOUT_SIM_NO_PEER=all
  std::vector<std::pair<int, int>> pairs_without;        // FANOUT_SIM_NO_PEER=0-1,2-3: these pairs have no peer access
  bool late = false;                  // FANOUT_SIM_MODE=late: operations run as late as the API allows
  std::uint64_t seed = 0;             // FANOUT_SIM_SEED: which stream goes on first in late mode
  std::vector<faults::Fault> faults;  // FANOUT_SIM_FAULTS=alloc@1:3,down@0-1: what fails, and when
  bool leaks = false;                 // FANOUT_SIM_LEAKS: what is left at exit is reported
  bool races = false;                 // FANOUT_SIM_RACES: operations without an order between them are found
  bool launch_blocking = false;       // CUDA_LAUNCH_BLOCKING: errors show at the launch itself
  std::vector<int> visible;           // machine indices in the order of CUDA_VISIBLE_DEVICES

  std::uint64_t memory_of(int machine_index) const {
    return memory_bytes.size() == 1 ? memory_bytes[0] : memory_bytes[static_cast<std::size_t>(machine_index)];
  }
};

/// Reads the environment. A malformed value is reported on stderr (variable, value, what is allowed) and gives nothing.
std::optional<Settings> read_settings(std::uint64_t max_memory_bytes);

/// Identity of a device of the machine, by its machine index.
void device_uuid(int machine_index, unsigned char bytes[16]);
std::string device_uuid_text(int machine_index);  // "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"

/// Which of `devices` the text of CUDA_VISIBLE_DEVICES shows, in its order. Null: all.
std::vector<int> visible_devices(const char* text, int devices);

}  // namespace sim
