// SPDX-License-Identifier: Apache-2.0
// Every collective of NCCL on 1 to 4 ranks, with data whose results are exact.
#include <nccl.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/platform/nccl_ranks.h"

namespace {

using fanout::tests::DeviceArray;
using fanout::tests::kType;
using fanout::tests::most_ranks;
using fanout::tests::Ranks;

/// Around the edges of vectors and of the pieces that a reduction is cut in.
const std::vector<std::size_t> kCounts = {1, 7, 64, 2049, 20000};

/// Element i of rank r: small, different everywhere, exact in every type.
template <class T>
std::vector<T> values(int rank, std::size_t count) {
  std::vector<T> result(count);
  for (std::size_t i = 0; i < count; ++i) result[i] = static_cast<T>(i % 5 + rank + 1);
  return result;
}

template <class T>
std::vector<T> sums(int ranks, std::size_t count) {
  std::vector<T> result(count);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto addend = values<T>(rank, count);
    for (std::size_t i = 0; i < count; ++i) result[i] = static_cast<T>(result[i] + addend[i]);
  }
  return result;
}

template <class T>
std::vector<DeviceArray<T>> inputs(const Ranks& ranks, std::size_t count) {
  std::vector<DeviceArray<T>> arrays;
  for (int rank = 0; rank < ranks.size(); ++rank) arrays.emplace_back(values<T>(rank, count), rank);
  return arrays;
}

template <class T>
std::vector<DeviceArray<T>> outputs(const Ranks& ranks, std::size_t count) {
  std::vector<DeviceArray<T>> arrays;
  for (int rank = 0; rank < ranks.size(); ++rank) arrays.emplace_back(std::vector<T>(count, T{99}), rank);
  return arrays;
}

template <class T>
std::vector<T> slice(const std::vector<T>& from, std::size_t begin, std::size_t count) {
  return {from.begin() + begin, from.begin() + begin + count};
}

}  // namespace

#define ALL_TYPES std::int8_t, std::uint8_t, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t, float, double

TEMPLATE_TEST_CASE("all-reduce sums exactly on every rank, in place and not", "", ALL_TYPES) {
  for (int size = 1; size <= most_ranks(); ++size) {
    const Ranks ranks(size);
    for (const std::size_t count : kCounts) {
      const auto x = inputs<TestType>(ranks, count);
      const auto y = outputs<TestType>(ranks, count);
      REQUIRE(ranks.in_a_group([&](int r) {
        ncclAllReduce(x[r].data(), y[r].data(), count, kType<TestType>, ncclSum, ranks.comm(r), ranks.stream(r));
      }) == ncclSuccess);
      REQUIRE(ranks.in_a_group([&](int r) {
        ncclAllReduce(x[r].data(), x[r].data(), count, kType<TestType>, ncclSum, ranks.comm(r), ranks.stream(r));
      }) == ncclSuccess);
      for (int r = 0; r < size; ++r) {
        CHECK(y[r].read() == sums<TestType>(size, count));
        CHECK(x[r].read() == sums<TestType>(size, count));
      }
    }
  }
}

TEMPLATE_TEST_CASE("reduce sums on the root alone, any root, in place and not", "", ALL_TYPES) {
  for (int size = 1; size <= most_ranks(); ++size) {
    const Ranks ranks(size);
    for (int root = 0; root < size; ++root) {
      for (const std::size_t count : kCounts) {
        const auto x = inputs<TestType>(ranks, count);
        const DeviceArray<TestType> y(std::vector<TestType>(count), root);
        const auto reduce = [&](TestType* target) {
          return ranks.in_a_group([&](int r) {
            ncclReduce(x[r].data(), r == root ? target : nullptr, count, kType<TestType>, ncclSum, root, ranks.comm(r),
                       ranks.stream(r));
          });
        };
        REQUIRE(reduce(y.data()) == ncclSuccess);
        CHECK(y.read() == sums<TestType>(size, count));
        REQUIRE(reduce(x[root].data()) == ncclSuccess);
        for (int r = 0; r < size; ++r) {
          CHECK(x[r].read() == (r == root ? sums<TestType>(size, count) : values<TestType>(r, count)));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("broadcast copies the root's buffer, any root, in place and not", "", std::uint8_t, float, double) {
  for (int size = 1; size <= most_ranks(); ++size) {
    const Ranks ranks(size);
    for (int root = 0; root < size; ++root) {
      for (const std::size_t count : kCounts) {
        const auto x = inputs<TestType>(ranks, count);
        const auto y = outputs<TestType>(ranks, count);
        REQUIRE(ranks.in_a_group([&](int r) {
          ncclBroadcast(r == root ? x[r].data() : nullptr, y[r].data(), count, kType<TestType>, root, ranks.comm(r),
                        ranks.stream(r));
        }) == ncclSuccess);
        REQUIRE(ranks.in_a_group([&](int r) {
          ncclBcast(x[r].data(), count, kType<TestType>, root, ranks.comm(r), ranks.stream(r));
        }) == ncclSuccess);
        for (int r = 0; r < size; ++r) {
          CHECK(y[r].read() == values<TestType>(root, count));
          CHECK(x[r].read() == values<TestType>(root, count));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("reduce-scatter gives each rank its part of the sums, in place and not", "", std::int32_t, float,
                   double) {
  for (int size = 1; size <= most_ranks(); ++size) {
    const Ranks ranks(size);
    for (const std::size_t count : kCounts) {
      const auto x = inputs<TestType>(ranks, count * size);
      const auto y = outputs<TestType>(ranks, count);
      REQUIRE(ranks.in_a_group([&](int r) {
        ncclReduceScatter(x[r].data(), y[r].data(), count, kType<TestType>, ncclSum, ranks.comm(r), ranks.stream(r));
      }) == ncclSuccess);
      REQUIRE(ranks.in_a_group([&](int r) {
        ncclReduceScatter(x[r].data(), x[r].data() + r * count, count, kType<TestType>, ncclSum, ranks.comm(r),
                          ranks.stream(r));
      }) == ncclSuccess);
      const auto expected = sums<TestType>(size, count * size);
      for (int r = 0; r < size; ++r) {
        CHECK(y[r].read() == slice(expected, r * count, count));
        CHECK(slice(x[r].read(), r * count, count) == slice(expected, r * count, count));
      }
    }
  }
}

TEMPLATE_TEST_CASE("all-gather puts the ranks' parts side by side, in place and not", "", std::int8_t, std::int64_t,
                   float) {
  for (int size = 1; size <= most_ranks(); ++size) {
    const Ranks ranks(size);
    for (const std::size_t count : kCounts) {
      const auto x = inputs<TestType>(ranks, count);
      const auto y = outputs<TestType>(ranks, count * size);
      const auto gather = [&](bool in_place) {
        return ranks.in_a_group([&](int r) {
          ncclAllGather(in_place ? y[r].data() + r * count : x[r].data(), y[r].data(), count, kType<TestType>,
                        ranks.comm(r), ranks.stream(r));
        });
      };
      std::vector<TestType> expected;
      for (int r = 0; r < size; ++r) {
        const auto part = values<TestType>(r, count);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      REQUIRE(gather(false) == ncclSuccess);
      REQUIRE(gather(true) == ncclSuccess);
      for (int r = 0; r < size; ++r) CHECK(y[r].read() == expected);
    }
  }
}

TEMPLATE_TEST_CASE("product, maximum and minimum are exact", "", std::int32_t, std::uint8_t, float, double) {
  for (int size = 1; size <= most_ranks(); ++size) {
    const Ranks ranks(size);
    for (const auto operation : {ncclProd, ncclMax, ncclMin}) {
      const auto x = inputs<TestType>(ranks, 100);
      REQUIRE(ranks.in_a_group([&](int r) {
        ncclAllReduce(x[r].data(), x[r].data(), 100, kType<TestType>, operation, ranks.comm(r), ranks.stream(r));
      }) == ncclSuccess);
      std::vector<TestType> expected = values<TestType>(0, 100);
      for (int r = 1; r < size; ++r) {
        for (std::size_t i = 0; i < 100; ++i) {
          const TestType other = values<TestType>(r, 100)[i];
          if (operation == ncclProd) expected[i] = static_cast<TestType>(expected[i] * other);
          if (operation == ncclMax) expected[i] = std::max(expected[i], other);
          if (operation == ncclMin) expected[i] = std::min(expected[i], other);
        }
      }
      for (int r = 0; r < size; ++r) CHECK(x[r].read() == expected);
    }
  }
}

TEMPLATE_TEST_CASE("the average of integers truncates and that of floats is exact", "", std::int32_t, float, double) {
  const int size = most_ranks();
  const Ranks ranks(size);
  std::vector<DeviceArray<TestType>> x;
  for (int r = 0; r < size; ++r) x.emplace_back(std::vector<TestType>(33, static_cast<TestType>(r == 0 ? 7 : 4)), r);
  REQUIRE(ranks.in_a_group([&](int r) {
    ncclAllReduce(x[r].data(), x[r].data(), 33, kType<TestType>, ncclAvg, ranks.comm(r), ranks.stream(r));
  }) == ncclSuccess);
  const TestType expected = static_cast<TestType>(TestType(7 + 4 * (size - 1)) / static_cast<TestType>(size));
  for (int r = 0; r < size; ++r) CHECK(x[r].read() == std::vector<TestType>(33, expected));
}

TEST_CASE("sums of floats are the same bits on every rank and at every repetition") {
  const int size = most_ranks();
  const Ranks ranks(size);
  constexpr std::size_t kCount = 5000;
  std::vector<float> first;
  for (int repetition = 0; repetition < 3; ++repetition) {
    std::vector<DeviceArray<float>> x;
    for (int r = 0; r < size; ++r) {
      std::vector<float> numbers(kCount);
      for (std::size_t i = 0; i < kCount; ++i) numbers[i] = 1.0f / static_cast<float>(i * size + r + 1);
      x.emplace_back(numbers, r);
    }
    REQUIRE(ranks.in_a_group([&](int r) {
      ncclAllReduce(x[r].data(), x[r].data(), kCount, ncclFloat, ncclSum, ranks.comm(r), ranks.stream(r));
    }) == ncclSuccess);
    if (first.empty()) first = x[0].read();
    for (int r = 0; r < size; ++r) CHECK(x[r].read() == first);
  }
}

TEST_CASE("send and receive shift buffers around a ring in one group, and to oneself") {
  for (int size = 1; size <= most_ranks(); ++size) {
    const Ranks ranks(size);
    const auto x = inputs<float>(ranks, 1000);
    const auto y = outputs<float>(ranks, 1000);
    REQUIRE(ranks.in_a_group([&](int r) {
      ncclSend(x[r].data(), 1000, ncclFloat, (r + 1) % size, ranks.comm(r), ranks.stream(r));
      ncclRecv(y[r].data(), 1000, ncclFloat, (r + size - 1) % size, ranks.comm(r), ranks.stream(r));
    }) == ncclSuccess);
    for (int r = 0; r < size; ++r) CHECK(y[r].read() == values<float>((r + size - 1) % size, 1000));
  }
}

TEST_CASE("several transfers of one pair arrive in the order of their calls") {
  if (most_ranks() < 2) return;
  const Ranks ranks(2);
  const DeviceArray<float> x({1, 2, 3}, 0), y({0, 0, 0}, 1);
  REQUIRE(ranks.in_a_group([&](int r) {
    for (int i = 0; i < 3; ++i) {
      if (r == 0) ncclSend(x.data() + i, 1, ncclFloat, 1, ranks.comm(0), ranks.stream(0));
      if (r == 1) ncclRecv(y.data() + i, 1, ncclFloat, 0, ranks.comm(1), ranks.stream(1));
    }
  }) == ncclSuccess);
  CHECK(y.read() == std::vector<float>{1, 2, 3});
}

TEST_CASE("several collectives of one group run in order, and the default stream is the communicator's device's") {
  const int size = most_ranks();
  const Ranks ranks(size);
  const auto x = inputs<std::int64_t>(ranks, 10);
  REQUIRE(ranks.in_a_group([&](int r) {
    ncclAllReduce(x[r].data(), x[r].data(), 10, ncclInt64, ncclSum, ranks.comm(r), nullptr);
    ncclAllReduce(x[r].data(), x[r].data(), 10, ncclInt64, ncclMax, ranks.comm(r), nullptr);
    ncclBcast(x[r].data(), 5, ncclInt64, size - 1, ranks.comm(r), nullptr);
  }) == ncclSuccess);
  for (int r = 0; r < size; ++r) CHECK(x[r].read() == sums<std::int64_t>(size, 10));
}

TEST_CASE("a count of 0 is dropped: one rank alone may call it, with NULL buffers") {
  const Ranks ranks(most_ranks());
  CHECK(ncclAllReduce(nullptr, nullptr, 0, ncclFloat, ncclSum, ranks.comm(0), ranks.stream(0)) == ncclSuccess);
  CHECK(ncclReduce(nullptr, nullptr, 0, ncclFloat, ncclSum, 0, ranks.comm(0), ranks.stream(0)) == ncclSuccess);
}
