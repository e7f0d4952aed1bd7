// SPDX-License-Identifier: Apache-2.0
// Joins the replicas' outputs on one device; backward scatters the gradient back to them.
#pragma once

#include <vector>

#include "runtime/tensor/tensor.h"

namespace fanout {

/// Concatenates `outputs`, one tensor a replica in order, along `dim` on `target`. One-number outputs (rank 0) become a
/// vector, a number a replica. `what` names the output in messages ("output 1"). Throws InvalidArgument when dtypes,
/// ranks or the other dimensions differ, naming both replicas.
Tensor gather(const std::vector<Tensor>& outputs, int dim, Device target, const std::string& what = "output");

}  // namespace fanout
