// SPDX-License-Identifier: Apache-2.0
#include "models/datasets/shuffle.h"

#include <fmt/format.h>

#include <numeric>
#include <stdexcept>
#include <utility>

#include "models/datasets/random_source.h"

namespace fanout::models {

std::vector<std::int64_t> shuffled_indices(std::int64_t rows, std::uint64_t seed, std::int64_t epoch) {
  if (rows < 0) throw std::invalid_argument(fmt::format("shuffled_indices: rows is {}; it must not be negative", rows));
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  RandomSource random(seed, RandomSource::Use::shuffle, static_cast<std::uint64_t>(epoch));
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

}  // namespace fanout::models
