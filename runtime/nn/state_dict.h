// SPDX-License-Identifier: Apache-2.0
// The state of a module by name, as torch writes it.
#pragma once

#include <vector>

#include "runtime/nn/module.h"

namespace fanout {

/// Parameters and buffers by dotted name ("fc1.weight"), in the order of the module's visit.
using StateDict = std::vector<NamedTensor>;

/// All parameters and buffers of `module`, outside the graph; they share the module's memory. A tensor that several
/// members share comes under each of its names, as in torch.
StateDict state_dict(ModuleView module);

/// Copies the values of `state` into `module`, from any devices, and counts the writes. Throws InvalidArgument that
/// lists every missing, unexpected, doubled or unlike (shape, dtype) entry; then nothing was copied.
void load_state_dict(ModuleView module, const StateDict& state);

}  // namespace fanout
