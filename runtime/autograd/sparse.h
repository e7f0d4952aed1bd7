// SPDX-License-Identifier: Apache-2.0
// Gradients of a table of which few rows were used: those rows, with their numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace fanout {

/// Stands for a matrix of `rows` rows that is zero but for sums of rows: row i of `values` belongs to row indices[i]. A
/// number may come several times ("uncoalesced"); one outside [0, rows) stands for nothing.
struct SparseRows {
  Tensor indices;         // [n], i64
  Tensor values;          // [n, width], f32 or f64, on the same device
  std::int64_t rows = 0;  // of the whole matrix
};

/// The whole matrix: [rows, width].
Tensor dense_of(const SparseRows& sparse);
/// Adds scale * the matrix to `target`, in place: row by row in the order of the indices, so always with the same
/// result.
///   target  [rows, width], contiguous, of the values' dtype and device
void add_rows(const Tensor& target, const SparseRows& sparse, double scale = 1);
/// Each row number once, growing, with its values summed in the order in which they came. Waits for the device.
SparseRows coalesced(const SparseRows& sparse);
/// The rows of all parts, one part behind the other; of one matrix, on one device.
SparseRows concatenated(const std::vector<SparseRows>& parts);
/// On another device, in new memory.
SparseRows copied_to(const SparseRows& sparse, Device device);

/// The gradient of a leaf as backward left it, if it is sparse: uncoalesced, the rows of later backwards behind those
/// of earlier ones. Else nothing; leaf.grad() has either kind, as a whole matrix.
std::optional<SparseRows> sparse_grad(const Tensor& leaf);

}  // namespace fanout
