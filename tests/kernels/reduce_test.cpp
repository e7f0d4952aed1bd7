// SPDX-License-Identifier: Apache-2.0
#include "kernels/reduce.h"

#include "tests/kernels/matrix_check.h"

namespace fanout::kernels {
namespace {

struct Sizes {
  std::int64_t outer, length, inner;
};

template <class T>
std::vector<T> expected_sums(const std::vector<T>& y, const std::vector<T>& x, double scale, bool accumulate,
                             Sizes sizes) {
  std::vector<T> sums(y.size());
  for (std::int64_t o = 0; o < sizes.outer; ++o) {
    for (std::int64_t i = 0; i < sizes.inner; ++i) {
      long double sum = 0;
      for (std::int64_t l = 0; l < sizes.length; ++l) sum += x[(o * sizes.length + l) * sizes.inner + i];
      const std::int64_t at = o * sizes.inner + i;
      sums[at] = static_cast<T>(scale * sum + (accumulate ? y[at] : 0));
    }
  }
  return sums;
}

template <class T>
void check_exact(Sizes sizes) {
  CAPTURE(sizes.outer, sizes.length, sizes.inner);
  const auto x = small_integers<T>(sizes.outer * sizes.length * sizes.inner, 1);
  const auto before = small_integers<T>(sizes.outer * sizes.inner, 2);
  const DeviceArray<T> in(x);
  const auto workspace = DeviceArray<T>::unset(sum_workspace_elements(sizes.outer, sizes.length, sizes.inner));
  for (const bool accumulate : {false, true}) {
    for (T* const scratch : {static_cast<T*>(nullptr), workspace.data()}) {
      CAPTURE(accumulate, scratch != nullptr);
      const auto y = accumulate ? DeviceArray<T>(before) : DeviceArray<T>::unset(sizes.outer * sizes.inner);
      REQUIRE(sum_along<T>(nullptr, y.data(), in.data(), scratch, T(0.5), accumulate, sizes.outer, sizes.length,
                           sizes.inner) == cudaSuccess);
      require_same(y.to_host(), expected_sums(before, x, 0.5, accumulate, sizes));
    }
  }
}

TEMPLATE_TEST_CASE("sum_along adds rows, columns and whole matrices exactly", "", float, double) {
  for (const auto [rows, cols] : matrix_sizes()) {
    check_exact<TestType>({rows, cols, 1});
    check_exact<TestType>({1, rows, cols});
    check_exact<TestType>({1, rows * cols, 1});
  }
}

TEMPLATE_TEST_CASE("sum_along adds along a middle dimension exactly", "", float, double) {
  for (const std::int64_t outer : {2, 5}) {
    for (const std::int64_t length : {0, 1, 33, 1025}) {
      for (const std::int64_t inner : {2, 3, 31, 70}) check_exact<TestType>({outer, length, inner});
    }
  }
}

TEMPLATE_TEST_CASE("sum_along cuts long sums into segments without losing an element", "", float, double) {
  check_exact<TestType>({1, 1 << 20, 1});
  check_exact<TestType>({1, (1 << 17) + 13, 1});
  check_exact<TestType>({3, 20'011, 1});
  check_exact<TestType>({1, 20'011, 7});
  check_exact<TestType>({2, 1'300, 40});
}

TEMPLATE_TEST_CASE("a million numbers with a common offset lose few digits, the same every time", "", float, double) {
  const std::int64_t n = 1 << 20;
  const auto x = random_values<TestType>(n, 3, 1000, 1001);
  const DeviceArray<TestType> in(x);
  const auto workspace = DeviceArray<TestType>::unset(sum_workspace_elements(1, n, 1));
  std::vector<TestType> first;
  for (int round = 0; round < 2; ++round) {
    const auto y = DeviceArray<TestType>::unset(1);
    REQUIRE(sum_along<TestType>(nullptr, y.data(), in.data(), workspace.data(), 1, false, 1, n, 1) == cudaSuccess);
    if (round == 0) first = y.to_host();
    require_same(y.to_host(), first);
  }
  require_near(first, expected_sums(first, x, 1, false, {1, n, 1}), 2 * kRounding<TestType>);
}

TEST_CASE("sum_along refuses negative sizes and does nothing without outputs") {
  float* const none = nullptr;
  CHECK(sum_along<float>(nullptr, none, none, none, 1, false, 0, 5, 3) == cudaSuccess);
  CHECK(sum_along<float>(nullptr, none, none, none, 1, false, 3, 5, 0) == cudaSuccess);
  CHECK(sum_along<float>(nullptr, none, none, none, 1, false, -1, 5, 3) == cudaErrorInvalidValue);
  CHECK(sum_along<float>(nullptr, none, none, none, 1, false, 1, -5, 3) == cudaErrorInvalidValue);
  CHECK(sum_along<float>(nullptr, none, none, none, 1, false, 1, 5, -3) == cudaErrorInvalidValue);
}

}  // namespace
}  // namespace fanout::kernels
