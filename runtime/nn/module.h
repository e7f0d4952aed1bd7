// SPDX-License-Identifier: Apache-2.0
// Functions over any module: its tensors, its mode, deep copies.
#pragma once

#include <concepts>
#include <string>
#include <vector>

#include "runtime/nn/visit.h"

namespace fanout {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// The parameters (buffers) of `module` in the order of its visit; one that several members share comes once, under its
/// first name. They are the module's own: what is written to them is written to the module.
std::vector<Tensor> parameters(ModuleView module);
std::vector<Tensor> buffers(ModuleView module);
std::vector<NamedTensor> named_parameters(ModuleView module);
std::vector<NamedTensor> named_buffers(ModuleView module);

/// Forgets the gradients of all parameters; nothing is written.
void zero_grad(ModuleView module);

/// Sets every Mode in `module` to training or evaluating.
void train(ModuleView module, bool on = true);
inline void eval(ModuleView module) {
  train(module, false);
}

namespace detail {
/// Gives `copy`, which shares its tensors with another module, tensors of its own.
void separate(ModuleView copy);
}  // namespace detail

/// A deep copy: own parameters and buffers with the same values on the same devices, members that share a tensor share
/// its copy, no gradients. (`M copy = module` shares all tensors.)
template <Module M>
requires std::copy_constructible<M> M clone(const M& module) {
  M copy = module;
  detail::separate(copy);
  return copy;
}

}  // namespace fanout
