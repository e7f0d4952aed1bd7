// SPDX-License-Identifier: Apache-2.0
#include "kernels/copy.h"

#include <numeric>

#include "tests/kernels/device_array.h"
#include "tests/kernels/values.h"

namespace fanout::kernels {
namespace {

template <class T>
std::vector<T> numbered(std::int64_t n) {
  std::vector<T> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(static_cast<int>(i % 251));
  return values;
}

/// Offsets of all elements of a layout in row-major order, by an odometer.
std::vector<std::int64_t> offsets(const StridedLayout& layout) {
  std::vector<std::int64_t> result;
  std::int64_t index[kMaxRank] = {};
  std::int64_t count = 1;
  for (int d = 0; d < layout.rank; ++d) count *= layout.sizes[d];
  for (; count > 0; --count) {
    std::int64_t offset = 0;
    for (int d = 0; d < layout.rank; ++d) offset += index[d] * layout.strides[d];
    result.push_back(offset);
    for (int d = layout.rank - 1; d >= 0 && ++index[d] == layout.sizes[d]; --d) index[d] = 0;
  }
  return result;
}

/// Copies out of and into a buffer of `extent` elements, from `origin` in it.
template <class T>
void check_both_ways(const StridedLayout& layout, std::int64_t extent, std::int64_t origin = 0, int shift = 0) {
  const auto where = offsets(layout);
  const auto n = static_cast<std::int64_t>(where.size());
  const auto source = numbered<T>(extent);
  std::vector<T> gathered(where.size()), scattered(source.size(), T(7));
  for (std::size_t i = 0; i < where.size(); ++i) gathered[i] = source[static_cast<std::size_t>(origin + where[i])];
  for (const auto offset : where)
    scattered[static_cast<std::size_t>(origin + offset)] = source[static_cast<std::size_t>(origin + offset)];

  const DeviceArray<T> x(source, shift);
  const auto y = DeviceArray<T>::unset(n);
  REQUIRE(copy_strided(nullptr, y.data(), x.data() + origin, layout) == cudaSuccess);
  require_same(y.to_host(), gathered);

  const DeviceArray<T> target(std::vector<T>(source.size(), T(7)), shift);
  REQUIRE(scatter_strided(nullptr, target.data() + origin, layout, y.data()) == cudaSuccess);
  require_same(target.to_host(), scattered);
}

}  // namespace

TEMPLATE_TEST_CASE("copy_2d copies rows at any pitch and leaves the gaps alone", "", float, double, __nv_bfloat16,
                   std::int64_t, std::uint8_t) {
  using T = TestType;
  for (const std::int64_t rows : {0, 1, 2, 33}) {
    for (const std::int64_t cols : {0, 1, 31, 32, 64, 1025}) {
      for (const std::int64_t x_gap : {0, 1, 16}) {
        for (const std::int64_t y_gap : {0, 1, 16}) {
          for (const int shift : {0, 1, 2}) {
            CAPTURE(rows, cols, x_gap, y_gap, shift);
            const std::int64_t x_pitch = cols + x_gap, y_pitch = cols + y_gap;
            const auto x = numbered<T>(rows * x_pitch);
            std::vector<T> expected(static_cast<std::size_t>(rows * y_pitch), T(9));
            const DeviceArray<T> x_there(x, shift & 1), y(expected, shift >> 1);
            for (std::int64_t r = 0; r < rows; ++r) {
              std::copy_n(x.begin() + r * x_pitch, cols, expected.begin() + r * y_pitch);
            }
            REQUIRE(copy_2d(nullptr, y.data(), y_pitch, x_there.data(), x_pitch, rows, cols) == cudaSuccess);
            require_same(y.to_host(), expected);
          }
        }
      }
    }
  }
}

TEST_CASE("copy_2d with an input pitch of 0 repeats one row") {
  const DeviceArray<float> x({1, 2, 3, 4});
  const auto y = DeviceArray<float>::unset(12);
  REQUIRE(copy_2d(nullptr, y.data(), 4, x.data(), 0, 3, 4) == cudaSuccess);
  CHECK(y.to_host() == std::vector<float>{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4});
}

TEST_CASE("copy_2d refuses negative sizes and rows of y that overlap") {
  CHECK(copy_2d<float>(nullptr, nullptr, 4, nullptr, 4, -1, 4) == cudaErrorInvalidValue);
  CHECK(copy_2d<float>(nullptr, nullptr, 4, nullptr, 4, 1, -4) == cudaErrorInvalidValue);
  CHECK(copy_2d<float>(nullptr, nullptr, 3, nullptr, 4, 2, 4) == cudaErrorInvalidValue);
  CHECK(copy_2d<float>(nullptr, nullptr, 0, nullptr, 0, 0, 4) == cudaSuccess);
}

TEMPLATE_TEST_CASE("strided copies follow the layout both ways", "", float, double, __nv_bfloat16, std::int64_t,
                   std::uint8_t) {
  using T = TestType;
  SECTION("one element") {
    check_both_ways<T>({}, 1);
  }
  SECTION("nothing") {
    check_both_ways<T>({2, {3, 0}, {5, 1}}, 1);
  }
  SECTION("contiguous") {
    check_both_ways<T>({3, {3, 5, 7}, {35, 7, 1}}, 105);
  }
  SECTION("every second element") {
    check_both_ways<T>({1, {1025}, {2}}, 2050);
  }
  SECTION("backwards") {
    check_both_ways<T>({1, {33}, {-1}}, 33, 32);
  }
  SECTION("rows with a gap, unaligned") {
    check_both_ways<T>({2, {31, 33}, {40, 1}}, 1240, 3, 1);
  }
  SECTION("rows with a gap of whole packs") {
    check_both_ways<T>({2, {31, 32}, {48, 1}}, 1488);
  }
  SECTION("transposed, long runs") {
    check_both_ways<T>({2, {33, 65}, {1, 33}}, 2145);
  }
  SECTION("transposed, short runs") {
    check_both_ways<T>({2, {65, 31}, {1, 65}}, 2015);
  }
  SECTION("sizes of 1 count for nothing") {
    check_both_ways<T>({4, {1, 5, 1, 3}, {-99, 4, 77, 1}}, 20);
  }
  SECTION("three dimensions, middle taken out of a larger one") {
    check_both_ways<T>({3, {4, 3, 40}, {400, 80, 1}}, 1600, 5);
  }
  SECTION("six dimensions in reverse order") {
    check_both_ways<T>({6, {2, 3, 4, 5, 3, 2}, {1, 2, 6, 24, 120, 360}}, 720);
  }
  SECTION("six dimensions, long runs") {
    check_both_ways<T>({6, {2, 2, 3, 2, 2, 37}, {37 * 24, 37, 37 * 8, 37 * 2, 37 * 4, 1}}, 37 * 48);
  }
}

TEST_CASE("copy_strided with strides of 0 broadcasts") {
  const DeviceArray<float> x({1, 2, 3});
  const auto y = DeviceArray<float>::unset(12);
  REQUIRE(copy_strided(nullptr, y.data(), x.data(), {3, {2, 3, 2}, {0, 1, 0}}) == cudaSuccess);
  CHECK(y.to_host() == std::vector<float>{1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3});
}

TEST_CASE("strided copies refuse a rank out of range and negative sizes") {
  StridedLayout layout;
  for (const int rank : {-1, 7}) {
    layout.rank = rank;
    CHECK(copy_strided<float>(nullptr, nullptr, nullptr, layout) == cudaErrorInvalidValue);
    CHECK(scatter_strided<float>(nullptr, nullptr, layout, nullptr) == cudaErrorInvalidValue);
  }
  CHECK(copy_strided<float>(nullptr, nullptr, nullptr, {2, {0, -1}, {1, 1}}) == cudaErrorInvalidValue);
}

}  // namespace fanout::kernels
