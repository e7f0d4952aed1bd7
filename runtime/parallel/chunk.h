// SPDX-License-Identifier: Apache-2.0
// How many rows of a batch each device gets.
#pragma once

#include <cstdint>
#include <vector>

namespace fanout {

/// Sizes of the chunks of `rows` rows for `devices` devices, by torch.chunk's rule: pieces of ceil(rows / devices)
/// rows, the last one smaller, and no more pieces than rows need: 9 rows on 4 devices are 3, 3, 3. No rows are
/// `devices` empty chunks.
std::vector<std::int64_t> chunk_sizes(std::int64_t rows, int devices);

/// Rows for each device in proportion to `weights`: the whole part of rows * weight / sum of weights each, and the
/// rows that are left go one by one to the largest fractions, to the lower device where these are equal. 13 rows by
/// {2, 1, 1} are 7, 3, 3. Throws InvalidArgument for a weight that is negative or not finite, and where all are 0.
std::vector<std::int64_t> weighted_chunk_sizes(std::int64_t rows, const std::vector<double>& weights);

}  // namespace fanout
