// SPDX-License-Identifier: Apache-2.0
// Gradients as values, instead of beside the leaves.
#pragma once

#include <vector>

#include "runtime/autograd/backward.h"

namespace fanout {

/// The gradients of sum(output * gradient) by each of `inputs`, which may be leaves or results of operators; undefined
/// for one that `output` does not depend on. Without `gradient` the output must have one element, and 1 is meant. No
/// tensor's grad() changes, and only what leads from the output to the inputs runs. Hooks of tensors on the way are
/// called, those of the inputs before their gradient is returned. With create_graph the gradients can be differentiated
/// again. Throws InvalidArgument where backward does, and for an input that requires no gradient. Several threads may
/// take gradients through graphs that share leaves, except those leaves that one of them asks for.
///
///   const Tensor norm = sum(square(grad(loss, {x}, {}, {.create_graph = true})[0]));
///
/// Source of the behaviour: torch.autograd.grad with allow_unused.
std::vector<Tensor> grad(const Tensor& output, const std::vector<Tensor>& inputs, const Tensor& gradient = {},
                         BackwardOptions options = {});

}  // namespace fanout
