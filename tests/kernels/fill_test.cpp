// SPDX-License-Identifier: Apache-2.0
#include "kernels/fill.h"

#include "tests/kernels/device_array.h"
#include "tests/kernels/values.h"

namespace fanout::kernels {

TEMPLATE_TEST_CASE("fill writes every element and none beside them", "", float, double, __nv_bfloat16, std::int64_t,
                   std::uint8_t) {
  for (const auto n : kLengths) {
    for (const int shift : {0, 1}) {
      CAPTURE(n, shift);
      const auto y = DeviceArray<TestType>::unset(n, shift);
      REQUIRE(fill(nullptr, y.data(), TestType(42), n) == cudaSuccess);
      require_same(y.to_host(), std::vector<TestType>(static_cast<std::size_t>(n), TestType(42)));
    }
  }
  CHECK(fill<TestType>(nullptr, nullptr, TestType(1), 0) == cudaSuccess);
  CHECK(fill<TestType>(nullptr, nullptr, TestType(1), -1) == cudaErrorInvalidValue);
}

TEST_CASE("fill keeps all 64 bits of an integer") {
  const auto y = DeviceArray<std::int64_t>::unset(3);
  REQUIRE(fill(nullptr, y.data(), std::int64_t{0x123456789ABCDEF1}, 3) == cudaSuccess);
  CHECK(y.to_host() == std::vector<std::int64_t>(3, 0x123456789ABCDEF1));
}

TEST_CASE("a guard word that was overwritten is seen") {
  auto y = DeviceArray<float>::unset(4);
  REQUIRE(fill(nullptr, y.data(), 1.0f, 4) == cudaSuccess);
  CHECK(y.guards_intact());
  REQUIRE(fill(nullptr, y.data(), 1.0f, 5) == cudaSuccess);
  CHECK_FALSE(y.guards_intact());
  y.drop_guards();
}

}  // namespace fanout::kernels
