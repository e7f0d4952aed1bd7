// SPDX-License-Identifier: Apache-2.0
// Reductions of bf16: exact where the numbers allow it, rounded to the nearest where they do not.
#include <cuda_bf16.h>
#include <nccl.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/platform/nccl_ranks.h"

namespace {

using fanout::tests::DeviceArray;
using fanout::tests::most_ranks;
using fanout::tests::Ranks;

std::vector<float> floats(const std::vector<__nv_bfloat16>& values) {
  return {values.begin(), values.end()};
}

/// What an all-reduce of these numbers, one list a rank, leaves on every rank.
std::vector<float> all_reduced(const std::vector<std::vector<__nv_bfloat16>>& by_rank, ncclRedOp_t operation) {
  const Ranks ranks(static_cast<int>(by_rank.size()));
  std::vector<DeviceArray<__nv_bfloat16>> x;
  for (int r = 0; r < ranks.size(); ++r) x.emplace_back(by_rank[r], r);
  const std::size_t count = by_rank[0].size();
  REQUIRE(ranks.in_a_group([&](int r) {
    ncclAllReduce(x[r].data(), x[r].data(), count, ncclBfloat16, operation, ranks.comm(r), ranks.stream(r));
  }) == ncclSuccess);
  const auto result = floats(x[0].read());
  for (int r = 1; r < ranks.size(); ++r) {
    const auto other = floats(x[r].read());
    for (std::size_t i = 0; i < count; ++i) {
      REQUIRE((other[i] == result[i] || (std::isnan(other[i]) && std::isnan(result[i]))));
    }
  }
  return result;
}

}  // namespace

TEST_CASE("bf16 sums, products, extremes and averages of small integers are exact at every length") {
  for (int size = 1; size <= most_ranks(); ++size) {
    for (const std::size_t count : {1, 7, 64, 4097}) {
      CAPTURE(size, count);
      std::vector<std::vector<__nv_bfloat16>> x(size, std::vector<__nv_bfloat16>(count));
      std::vector<float> sum(count, 0), product(count, 1), most(count, -9), least(count, 9);
      for (int r = 0; r < size; ++r) {
        for (std::size_t i = 0; i < count; ++i) {
          const auto value = static_cast<float>(i % 3 + r % 2 + 1);
          x[r][i] = value;
          sum[i] += value;
          product[i] *= value;
          most[i] = std::max(most[i], value);
          least[i] = std::min(least[i], value);
        }
      }
      CHECK(all_reduced(x, ncclSum) == sum);
      CHECK(all_reduced(x, ncclProd) == product);
      CHECK(all_reduced(x, ncclMax) == most);
      CHECK(all_reduced(x, ncclMin) == least);
    }
  }
  if (most_ranks() < 2) return;
  CHECK(all_reduced({{1.0f, 7.0f}, {2.0f, 8.0f}}, ncclAvg) == std::vector<float>{1.5f, 7.5f});
}

TEST_CASE("a bf16 sum of two ranks is rounded to the nearest, a tie to the even one") {
  if (most_ranks() < 2) return;
  // Above 256 the numbers of bf16 are 2 apart.
  CHECK(all_reduced({{256.0f, 256.0f, 256.0f, 258.0f}, {1.0f, 1.0078125f, 3.0f, 1.0f}}, ncclSum) ==
        std::vector<float>{256, 258, 260, 260});
}

TEST_CASE("bf16 sums pass infinity and NaN on") {
  if (most_ranks() < 2) return;
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const auto sums = all_reduced({{infinity, infinity, nan, 3e38f}, {1.0f, -infinity, 1.0f, 3e38f}}, ncclSum);
  CHECK(sums[0] == infinity);
  CHECK(std::isnan(sums[1]));
  CHECK(std::isnan(sums[2]));
  CHECK(sums[3] == infinity);
}
