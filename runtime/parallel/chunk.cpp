// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/chunk.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/comm/comm.h"
#include "runtime/device/error.h"

namespace fanout {

std::vector<std::int64_t> chunk_sizes(std::int64_t rows, int devices) {
  return comm::chunk_sizes(rows, static_cast<std::size_t>(devices));
}

std::vector<std::int64_t> weighted_chunk_sizes(std::int64_t rows, const std::vector<double>& weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  const auto usable = [](double weight) { return std::isfinite(weight) && weight >= 0; };
  if (!std::all_of(weights.begin(), weights.end(), usable) || !std::isfinite(total) || total == 0) {
    throw InvalidArgument(
        fmt::format("weights [{}]: each must be a finite number from 0, and one above 0", fmt::join(weights, ", ")));
  }
  std::vector<std::int64_t> sizes;
  std::vector<double> fractions;
  for (const double weight : weights) {
    const double share = static_cast<double>(rows) * weight / total;
    sizes.push_back(static_cast<std::int64_t>(share));
    fractions.push_back(share - std::floor(share));
  }
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return fractions[a] > fractions[b]; });
  std::int64_t left = rows - std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  for (std::size_t i = 0; left > 0; i = (i + 1) % order.size()) {
    if (weights[order[i]] == 0) continue;
    ++sizes[order[i]];
    --left;
  }
  return sizes;
}

}  // namespace fanout
