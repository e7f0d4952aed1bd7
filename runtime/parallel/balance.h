// SPDX-License-Identifier: Apache-2.0
// Whether one of the devices holds the others up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/device.h"

namespace fanout {

/// torch's warning where one of `devices` has less than 75 % (exactly 75 % is enough) of the memory of another, or else
/// of its multiprocessors: it names the first device with the least and the first with the most. Memory is looked at
/// first, and one warning is enough. Nothing for devices that are alike, or only one.
///   memory_bytes, multiprocessors  [devices]
std::optional<std::string> imbalance(const std::vector<Device>& devices, const std::vector<std::uint64_t>& memory_bytes,
                                     const std::vector<int>& multiprocessors);

/// Warns of an imbalance among `devices`, which exist. Asks for their properties, which creates no context on them.
void warn_if_unbalanced(const std::vector<Device>& devices);

}  // namespace fanout
