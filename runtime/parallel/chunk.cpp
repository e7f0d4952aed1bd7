// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/chunk.h"

#include <algorithm>

namespace fanout {

std::vector<std::int64_t> chunk_sizes(std::int64_t rows, int devices) {
  if (rows == 0) return std::vector<std::int64_t>(static_cast<std::size_t>(devices), 0);
  const std::int64_t piece = (rows + devices - 1) / devices;
  std::vector<std::int64_t> sizes;
  for (std::int64_t begin = 0; begin < rows; begin += piece) sizes.push_back(std::min(piece, rows - begin));
  return sizes;
}

}  // namespace fanout
