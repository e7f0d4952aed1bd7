// SPDX-License-Identifier: Apache-2.0
// The state of a module by name, as torch writes it.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/nn/module.h"

namespace fanout {

/// Parameters and buffers by dotted name ("fc1.weight"), in the order of the module's visit.
using StateDict = std::vector<NamedTensor>;

/// All parameters and buffers of `module`, outside the graph; they share the module's memory. A tensor that several
/// members share comes under each of its names, as in torch.
StateDict state_dict(ModuleView module);

/// What load_state_dict had to do to make the names fit.
struct LoadedState {
  /// Every name began with "module.", as a wrapper of torch writes them, and fits without: worth a note to the user.
  bool prefix_removed = false;
};

/// Copies the values of `state` into `module`, from any devices, and counts the writes. Names must fit exactly; only
/// where they do not, and all of them have one "module." too many in front, it is left out. Throws InvalidArgument that
/// lists every missing, unexpected, doubled or unlike (shape, dtype) entry; then nothing was copied.
LoadedState load_state_dict(ModuleView module, const StateDict& state);

/// `state` with `prefix` before every name: add_prefix(state, "module.") has the names of a model in torch's wrapper.
/// The tensors are shared.
StateDict add_prefix(const StateDict& state, std::string_view prefix);

/// `state` without `prefix`, which every name must begin with; only this one is taken off, and a name's other parts
/// stay. Throws InvalidArgument with the first name that lacks it, or is nothing else. The tensors are shared.
StateDict remove_prefix(const StateDict& state, std::string_view prefix);

}  // namespace fanout
