// SPDX-License-Identifier: Apache-2.0
#include "kernels/convert.h"

#include "tests/kernels/bf16_values.h"
#include "tests/kernels/device_array.h"
#include "tests/kernels/values.h"

namespace fanout::kernels {
namespace {

template <class To, class From>
void check(const std::vector<From>& x, double scale, double tolerance) {
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<To> expected(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    expected[i] = static_cast<To>(static_cast<long double>(x[i]) * static_cast<long double>(scale));
  }
  for (const int shift : {0, 1, 2}) {
    CAPTURE(n, shift);
    const DeviceArray<From> on_device(x, shift % 2);
    const auto y = DeviceArray<To>::unset(n, shift / 2);
    REQUIRE((convert<To, From>(nullptr, y.data(), on_device.data(), scale, n)) == cudaSuccess);
    require_near(y.to_host(), expected, tolerance);
    require_same(on_device.to_host(), x);
  }
}

template <class From>
void check_bf16(const std::vector<From>& x, double scale) {
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<double> expected(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) expected[i] = nearest_bf16(static_cast<double>(x[i]) * scale);
  for (const int shift : {0, 1, 2}) {
    CAPTURE(n, shift);
    const DeviceArray<From> on_device(x, shift % 2);
    const auto y = DeviceArray<__nv_bfloat16>::unset(n, shift / 2);
    REQUIRE((convert<__nv_bfloat16, From>(nullptr, y.data(), on_device.data(), scale, n)) == cudaSuccess);
    require_near(y.to_host(), expected, 0);
  }
}

std::vector<std::uint8_t> bytes(std::int64_t n) {
  std::vector<std::uint8_t> x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint8_t>(i * 7 + 255);
  return x;
}

std::vector<std::int64_t> integers(std::int64_t n) {
  std::vector<std::int64_t> x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = (static_cast<std::int64_t>(i) - 9) * 3'000'000'019;
  return x;
}

}  // namespace

TEMPLATE_TEST_CASE("convert scales bytes, integers and other floating types at every length", "", float, double) {
  for (const auto n : kLengths) {
    check<TestType, std::uint8_t>(bytes(n), 1.0 / 255, kRounding<TestType>);
    check<TestType, std::int64_t>(integers(n), 0.25, kRounding<TestType>);
    check<TestType, float>(wild_values<float>(n, 3), -1.5, kRounding<float>);
    check<TestType, double>(random_values<double>(n, 4), 3.0, kRounding<TestType>);
  }
}

TEMPLATE_TEST_CASE("convert by 1 rounds once", "", float, double) {
  for (const auto n : kLengths) {
    check<TestType, std::uint8_t>(bytes(n), 1, 0);
    check<TestType, std::int64_t>(integers(n), 1, 0);
    check<TestType, float>(wild_values<float>(n, 3), 1, 0);
    check<TestType, double>(wild_values<double>(n, 4), 1, 0);
  }
}

TEST_CASE("convert to float rounds the product, not the wider input") {
  check<float, std::int64_t>({16777217, -16777217}, 3,
                             0);  // 2^24 + 1 has no float, and three times it another neighbour
  check<float, double>({16777217, -16777217}, 3, 0);
}

TEST_CASE("convert rounds to the nearest bf16 once, ties to even, from every type") {
  for (const auto n : kLengths) {
    check_bf16(bytes(n), 1);
    check_bf16(integers(n), 0.25);
    check_bf16(wild_values<float>(n, 3), 1);
    check_bf16(wild_values<double>(n, 4), 1);
    check_bf16(random_values<double>(n, 5), -3);
  }
  check_bf16<float>({1 + 0x1p-8f, 1 + 0x3p-8f, -1 - 0x1p-8f, 1 + 0x1p-8f + 0x1p-23f, 0x1p-133f, 0x1p-134f, 3.4e38f}, 1);
  check_bf16<double>({1 + 0x1p-8 + 0x1p-50, 1 + 0x3p-8 - 0x1p-50, -1 - 0x1p-8 - 0x1p-50, 1e300, 1e-300}, 1);
}

TEMPLATE_TEST_CASE("convert of bf16 is exact", "", float, double, __nv_bfloat16) {
  for (const auto n : kLengths) {
    const auto x = bf16_values(wild_values<float>(n, 3));
    for (const int shift : {0, 1, 2}) {
      CAPTURE(n, shift);
      const DeviceArray<__nv_bfloat16> on_device(x, shift % 2);
      const auto y = DeviceArray<TestType>::unset(n, shift / 2);
      REQUIRE((convert<TestType, __nv_bfloat16>(nullptr, y.data(), on_device.data(), 1, n)) == cudaSuccess);
      require_near(y.to_host(), x, 0);
    }
  }
}

TEST_CASE("convert makes integers of bytes") {
  for (const auto n : kLengths) check<std::int64_t, std::uint8_t>(bytes(n), 1, 0);
}

TEMPLATE_TEST_CASE("convert within one type may be in place", "", float, double) {
  const DeviceArray<TestType> x(std::vector<TestType>{1, 2, 3, 4, 5});
  REQUIRE((convert<TestType, TestType>(nullptr, x.data(), x.data(), 2, 5)) == cudaSuccess);
  CHECK(x.to_host() == std::vector<TestType>{2, 4, 6, 8, 10});
}

TEST_CASE("convert of nothing is fine and of a negative length is refused") {
  CHECK((convert<float, std::uint8_t>(nullptr, nullptr, nullptr, 1, 0)) == cudaSuccess);
  CHECK((convert<float, std::uint8_t>(nullptr, nullptr, nullptr, 1, -1)) == cudaErrorInvalidValue);
}

}  // namespace fanout::kernels
