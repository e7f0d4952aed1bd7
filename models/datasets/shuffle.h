// SPDX-License-Identifier: Apache-2.0
// The order in which an epoch visits the rows of a data set.
#pragma once

#include <cstdint>
#include <vector>

namespace fanout::models {

/// The numbers 0..rows-1 in a random order that `seed` and `epoch` decide, the same on every machine.
/// Throws std::invalid_argument when `rows` is negative. Source: Fisher and Yates (Knuth, TAOCP 2, algorithm 3.4.2P).
std::vector<std::int64_t> shuffled_indices(std::int64_t rows, std::uint64_t seed, std::int64_t epoch);

}  // namespace fanout::models
