// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/chunk.h"

#include <catch2/catch.hpp>

using fanout::chunk_sizes;
using Sizes = std::vector<std::int64_t>;

TEST_CASE("chunks follow torch's rule: pieces of ceil(rows / devices), no more than rows need") {
  CHECK(chunk_sizes(9, 4) == Sizes{3, 3, 3});
  CHECK(chunk_sizes(9, 8) == Sizes{2, 2, 2, 2, 1});
  CHECK(chunk_sizes(10, 8) == Sizes{2, 2, 2, 2, 2});
  CHECK(chunk_sizes(17, 8) == Sizes{3, 3, 3, 3, 3, 2});
  CHECK(chunk_sizes(5, 4) == Sizes{2, 2, 1});
  CHECK(chunk_sizes(4, 3) == Sizes{2, 2});
  CHECK(chunk_sizes(7, 4) == Sizes{2, 2, 2, 1});
  CHECK(chunk_sizes(1, 4) == Sizes{1});
}

TEST_CASE("no rows are one empty chunk for each device") {
  CHECK(chunk_sizes(0, 3) == Sizes{0, 0, 0});
}

TEST_CASE("chunks sum to the rows and differ only in the last one") {
  for (std::int64_t rows = 1; rows < 70; ++rows) {
    for (int devices = 1; devices <= 9; ++devices) {
      const Sizes sizes = chunk_sizes(rows, devices);
      std::int64_t sum = 0;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        sum += sizes[i];
        CHECK(sizes[i] > 0);
        if (i + 1 < sizes.size()) CHECK(sizes[i] == sizes[0]);
      }
      CHECK(sum == rows);
      CHECK(sizes.size() <= static_cast<std::size_t>(devices));
    }
  }
}
