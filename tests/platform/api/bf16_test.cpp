// SPDX-License-Identifier: Apache-2.0
// Conversions to and from bf16, on the host.
#include <cuda_bf16.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

namespace {

std::uint16_t bits(__nv_bfloat16 x) {
  return std::bit_cast<std::uint16_t>(x);
}
__nv_bfloat16 of_bits(std::uint16_t bits) {
  return std::bit_cast<__nv_bfloat16>(bits);
}
bool is_nan(std::uint16_t bits) {
  return (bits & 0x7fff) > 0x7f80;
}

}  // namespace

TEST_CASE("every bf16 number becomes its float and double, and comes back") {
  for (unsigned i = 0; i < 0x10000; ++i) {
    const auto x = static_cast<std::uint16_t>(i);
    const float value = __bfloat162float(of_bits(x));
    if (is_nan(x)) {
      REQUIRE(std::isnan(value));
      continue;
    }
    REQUIRE(std::bit_cast<std::uint32_t>(value) == i << 16);
    REQUIRE(bits(__float2bfloat16(value)) == x);
    REQUIRE(bits(__double2bfloat16(value)) == x);
  }
}

TEST_CASE("a float between two bf16 numbers goes to the nearer one, a tie to the even one") {
  for (unsigned i = 0; i < 0xff80; ++i) {
    if ((i & 0x7fff) >= 0x7f80) continue;  // infinity and NaN
    const std::uint32_t below = i << 16;
    const auto rounded = [&](std::uint32_t rest) { return bits(__float2bfloat16(std::bit_cast<float>(below + rest))); };
    REQUIRE(rounded(1) == i);
    REQUIRE(rounded(0x7fff) == i);
    REQUIRE(rounded(0x8000) == i + (i & 1));
    REQUIRE(rounded(0x8001) == i + 1);
    REQUIRE(rounded(0xffff) == i + 1);
  }
}

TEST_CASE("a double is rounded to bf16 once, not by way of a float") {
  const double tie = 1 + 0x1p-8;  // between 1 and 1 + 2^-7
  CHECK(bits(__double2bfloat16(tie)) == 0x3f80);
  CHECK(bits(__double2bfloat16(tie + 0x1p-50)) == 0x3f81);  // as a float it is the tie again
  CHECK(bits(__double2bfloat16(-tie - 0x1p-50)) == 0xbf81);
  CHECK(bits(__double2bfloat16(tie + 0x1p-7 - 0x1p-50)) == 0x3f81);
  CHECK(bits(__double2bfloat16(tie - 0x1p-50)) == 0x3f80);
  CHECK(bits(__double2bfloat16(1e300)) == 0x7f80);
  CHECK(bits(__double2bfloat16(-1e300)) == 0xff80);
  CHECK(bits(__double2bfloat16(1e-300)) == 0);
  CHECK(bits(__double2bfloat16(-1e-300)) == 0x8000);
  CHECK(bits(__nv_bfloat16(3)) == 0x4040);
}

TEST_CASE("infinity, overflow and NaN") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK(bits(__float2bfloat16(kInfinity)) == 0x7f80);
  CHECK(bits(__float2bfloat16(-kInfinity)) == 0xff80);
  CHECK(bits(__float2bfloat16(std::numeric_limits<float>::max())) == 0x7f80);
  for (const std::uint32_t nan : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    CHECK(bits(__float2bfloat16(std::bit_cast<float>(nan))) == 0x7fff);
  }
  CHECK(bits(__double2bfloat16(std::numeric_limits<double>::quiet_NaN())) == 0x7fff);
}
