// SPDX-License-Identifier: Apache-2.0
// Which devices DataParallel may use, and whether the module is where it must be.
#pragma once

#include <vector>

#include "runtime/device/device.h"
#include "runtime/nn/visit.h"

namespace fanout {

/// The devices of `ids`, or all visible ones if it is empty. Throws NoDeviceError without any device, InvalidArgument
/// that lists every id that is unknown, negative or repeated, with the valid range and CUDA_VISIBLE_DEVICES.
std::vector<Device> devices_of_ids(const std::vector<int>& ids);

/// Throws PlacementError: torch's sentence, every parameter and buffer of `module` that is not on devices[0], by name,
/// their number, and the ways out.
[[noreturn]] void throw_misplaced(ModuleView module, const std::vector<Device>& devices);

}  // namespace fanout
