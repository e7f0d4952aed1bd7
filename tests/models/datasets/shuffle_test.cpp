// SPDX-License-Identifier: Apache-2.0
#include "models/datasets/shuffle.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <numeric>

namespace fanout::models {

using Order = std::vector<std::int64_t>;

TEST_CASE("shuffled_indices is a permutation") {
  for (const std::int64_t rows : {0, 1, 2, 3, 10, 1437, 60000}) {
    Order order = shuffled_indices(rows, 5, 3);
    std::ranges::sort(order);
    Order expected(static_cast<std::size_t>(rows));
    std::iota(expected.begin(), expected.end(), 0);
    CHECK(order == expected);
  }
}

TEST_CASE("shuffled_indices differs by epoch and by seed, and repeats for the same") {
  CHECK(shuffled_indices(1000, 5, 3) == shuffled_indices(1000, 5, 3));
  CHECK(shuffled_indices(1000, 5, 3) != shuffled_indices(1000, 5, 4));
  CHECK(shuffled_indices(1000, 5, 3) != shuffled_indices(1000, 6, 3));
  CHECK(shuffled_indices(1000, 5, 3) != shuffled_indices(1000, 3, 5));
}

TEST_CASE("shuffled_indices gives each order of 3 rows equally often") {
  std::map<Order, int> counts;
  for (std::int64_t epoch = 0; epoch < 6000; ++epoch) ++counts[shuffled_indices(3, 1, epoch)];
  REQUIRE(counts.size() == 6);
  for (const auto& [order, count] : counts) CHECK(std::abs(count - 1000) < 150);  // 5 standard deviations
}

// By an implementation of the generator and the shuffle in Python.
TEST_CASE("shuffled_indices is the same on every machine") {
  CHECK(shuffled_indices(10, 0, 0) == Order{1, 8, 9, 7, 0, 3, 5, 6, 2, 4});
  CHECK(shuffled_indices(10, 42, 7) == Order{6, 9, 3, 8, 0, 5, 1, 7, 4, 2});
}

TEST_CASE("shuffled_indices refuses a negative number of rows") {
  CHECK_THROWS_WITH(shuffled_indices(-1, 0, 0), "shuffled_indices: rows is -1; it must not be negative");
}

}  // namespace fanout::models
