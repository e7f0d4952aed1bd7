// SPDX-License-Identifier: Apache-2.0
// How many rows of a batch each replica gets.
#pragma once

#include <cstdint>
#include <vector>

namespace fanout {

/// Sizes of the chunks of `rows` rows for `devices` devices, by torch.chunk's rule: pieces of ceil(rows / devices)
/// rows, the last one smaller, and no more pieces than rows need: 9 rows on 4 devices are 3, 3, 3. No rows are
/// `devices` empty chunks.
std::vector<std::int64_t> chunk_sizes(std::int64_t rows, int devices);

}  // namespace fanout
