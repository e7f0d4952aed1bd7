// SPDX-License-Identifier: Apache-2.0
// Moves a module between the host and devices, into one flat buffer per role.
#pragma once

#include "runtime/nn/fields.h"
#include "runtime/nn/module.h"

namespace fanout {

namespace detail {
void move_tensors(ModuleView module, Device device);
}

/// Moves all parameters and buffers of `module` to `device`: the parameters into one buffer, in a FlatLayout over
/// parameters(module), their gradients into another one with the same offsets (on a device), the buffers into a third.
/// Handles stay valid, so an optimizer made before works on; members that share a tensor go on sharing it. Gradients
/// are forgotten. Nothing happens where all of this holds already. Throws InvalidArgument for a member that no visit
/// names (of aggregates), and for a device that does not exist.
template <Module M>
void to(M& module, Device device) {
  require_all_visited(module);
  detail::move_tensors(module, device);
}

/// to(module, the device it is on), if all of its tensors are on one device; else nothing.
void flatten(ModuleView module);

}  // namespace fanout
