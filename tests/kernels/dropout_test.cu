// SPDX-License-Identifier: Apache-2.0
#include "kernels/dropout.h"

#include "kernels/launch.cuh"
#include "kernels/philox.cuh"
#include "tests/kernels/device_array.h"
#include "tests/kernels/values.h"

namespace fanout::kernels {
namespace {

// One thread: four words.
__global__ void philox_kernel(std::uint32_t* y, PhiloxWords counter, std::uint32_t key0, std::uint32_t key1) {
  const PhiloxWords words = philox4x32_10(counter, key0, key1);
  for (int i = 0; i < 4; ++i) y[i] = words.words[i];
}

std::vector<std::uint32_t> philox_on_device(PhiloxWords counter, std::uint32_t key0, std::uint32_t key1) {
  const auto y = DeviceArray<std::uint32_t>::unset(4);
  REQUIRE(launch<philox_kernel>(nullptr, LaunchShape{}, y.data(), counter, key0, key1) == cudaSuccess);
  return y.to_host();
}

/// Dropout of ones: 0 where dropped, the scale where kept.
template <class T>
std::vector<T> dropped_ones(std::int64_t n, double p, std::uint64_t seed, std::uint64_t offset) {
  const DeviceArray<T> x(std::vector<T>(static_cast<std::size_t>(n), T(1)));
  REQUIRE(dropout(nullptr, x.data(), x.data(), static_cast<T>(p), seed, offset, n) == cudaSuccess);
  return x.to_host();
}

}  // namespace

TEST_CASE("philox4x32-10 has the known answers of Random123") {
  using Words = std::vector<std::uint32_t>;
  constexpr std::uint32_t kOnes = 0xFFFFFFFF;
  CHECK(philox_on_device({{0, 0, 0, 0}}, 0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox_on_device({{kOnes, kOnes, kOnes, kOnes}}, kOnes, kOnes) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox_on_device({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEMPLATE_TEST_CASE("dropout takes word i % 4 of counter offset + i / 4 for element i", "", float, double) {
  // Counter 0, key 0: 6627e8d5 e169c58d bc57ac4c 9b00dbd8, that is 0.399, 0.881, 0.736, 0.605 of 2^32.
  CHECK(dropped_ones<TestType>(4, 0.5, 0, 0) == std::vector<TestType>{0, 2, 2, 2});
  CHECK(dropped_ones<TestType>(4, 0.75, 0, 0) == std::vector<TestType>{0, 4, 0, 0});
  CHECK(dropped_ones<TestType>(3, 0.625, 0, 0) == std::vector<TestType>{0, TestType(1 / 0.375), TestType(1 / 0.375)});
  const std::uint64_t seed = 0x123456789abcdef0, offset = 0xFFFFFFFE;  // the counter passes 2^32
  const auto y = dropped_ones<TestType>(19, 0.5, seed, offset);
  for (std::uint64_t i = 0; i < 19; ++i) {
    const std::uint64_t counter = offset + i / 4;
    const auto words =
        philox_on_device({{std::uint32_t(counter), std::uint32_t(counter >> 32), 0, 0}}, 0x9abcdef0, 0x12345678);
    CHECK(y[i] == (words[i % 4] >= 0x80000000 ? TestType(2) : TestType(0)));
  }
}

TEMPLATE_TEST_CASE("dropout of a vector is that of its parts, whatever the alignment", "", float, double) {
  using T = TestType;
  constexpr std::uint64_t kSeed = 99, kOffset = 1234567;
  const auto x = random_values<T>(1025, 1);
  const DeviceArray<T> whole_x(x);
  const auto whole = DeviceArray<T>::unset(1025);
  REQUIRE(dropout(nullptr, whole.data(), whole_x.data(), T(0.3), kSeed, kOffset, 1025) == cudaSuccess);
  const auto expected = whole.to_host();
  for (const int shift : {0, 1, 2}) {
    CAPTURE(shift);
    const DeviceArray<T> y(x, shift);
    std::int64_t done = 0;
    for (const std::int64_t part : {4, 0, 8, 500, 512, 1}) {
      REQUIRE(dropout(nullptr, y.data() + done, y.data() + done, T(0.3), kSeed,
                      kOffset + static_cast<std::uint64_t>(done / 4), part) == cudaSuccess);
      done += part;
    }
    REQUIRE(done == 1025);
    require_same(y.to_host(), expected);
  }
}

TEMPLATE_TEST_CASE("dropout at every length equals the start of a longer one", "", float, double) {
  using T = TestType;
  const auto longest = dropped_ones<T>(2000, 0.5, 7, 0);
  for (const auto n : kLengths) {
    CAPTURE(n);
    require_same(dropped_ones<T>(n, 0.5, 7, 0), std::vector<T>(longest.begin(), longest.begin() + n));
  }
}

TEMPLATE_TEST_CASE("dropout keeps the stated share, and seed and offset change the choice", "", float, double) {
  using T = TestType;
  constexpr std::int64_t kCount = 100'000;
  for (const double p : {0.1, 0.5, 0.9}) {
    const auto y = dropped_ones<T>(kCount, p, 1, 0);
    const double share = static_cast<double>(std::count(y.begin(), y.end(), T(0))) / kCount;
    CHECK(std::abs(share - p) < 5 * std::sqrt(p * (1 - p) / kCount));  // five standard deviations
    CHECK(*std::max_element(y.begin(), y.end()) == Approx(1 / (1 - p)));
  }
  CHECK(dropped_ones<T>(64, 0.5, 1, 0) != dropped_ones<T>(64, 0.5, 2, 0));
  CHECK(dropped_ones<T>(64, 0.5, 1, 0) != dropped_ones<T>(64, 0.5, 1 + (std::uint64_t{1} << 32), 0));
  CHECK(dropped_ones<T>(64, 0.5, 1, 0) != dropped_ones<T>(64, 0.5, 1, 16));
}

TEMPLATE_TEST_CASE("dropout with p 0 copies and with p 1 clears, infinities and NaN included", "", float, double) {
  const auto x = wild_values<TestType>(33, 1);
  const DeviceArray<TestType> x_there(x);
  const auto y = DeviceArray<TestType>::unset(33);
  REQUIRE(dropout(nullptr, y.data(), x_there.data(), TestType(0), 1, 2, 33) == cudaSuccess);
  require_same(y.to_host(), x);
  REQUIRE(dropout(nullptr, y.data(), x_there.data(), TestType(1), 1, 2, 33) == cudaSuccess);
  require_same(y.to_host(), std::vector<TestType>(33, TestType(0)));
}

TEMPLATE_TEST_CASE("dropout refuses a probability outside 0 to 1 and a negative length", "", float, double) {
  using T = TestType;
  for (const T p : {T(-0.1), T(1.1), std::numeric_limits<T>::quiet_NaN()}) {
    CHECK(dropout<T>(nullptr, nullptr, nullptr, p, 0, 0, 4) == cudaErrorInvalidValue);
  }
  CHECK(dropout<T>(nullptr, nullptr, nullptr, T(0.5), 0, 0, -1) == cudaErrorInvalidValue);
  CHECK(dropout<T>(nullptr, nullptr, nullptr, T(0.5), 0, 0, 0) == cudaSuccess);
}

}  // namespace fanout::kernels
