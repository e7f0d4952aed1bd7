// SPDX-License-Identifier: Apache-2.0
// Rows of a table by their numbers.
#pragma once

#include "runtime/tensor/tensor.h"

namespace fanout {

/// The rows of `weight` that `indices` name, in the shape of the indices with the row behind it.
///   indices [...], i64, each in [0, rows);  weight [rows, width], f32 or f64; both on one device → [..., width]
/// The weight's gradient has derivatives of any order. With `sparse` a backward without create_graph leaves at the leaf
/// only the rows that were used (autograd/sparse.h), however large the table is. An index outside its range makes its
/// row NaN, and has no gradient: checking it would wait for the device. Deterministic. Throws InvalidArgument for other
/// shapes and dtypes, PlacementError where devices differ. Source of the behaviour: torch.nn.functional.embedding.
Tensor embedding(const Tensor& indices, const Tensor& weight, bool sparse = false);

}  // namespace fanout
