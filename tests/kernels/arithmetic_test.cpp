// SPDX-License-Identifier: Apache-2.0
#include "kernels/arithmetic.h"

#include "tests/kernels/elementwise_check.h"

namespace fanout::kernels {

TEMPLATE_TEST_CASE("add, subtract, multiply and divide are exact to the bit", "", float, double) {
  using T = TestType;
  check_binary<T>([](T* y, const T* a, const T* b, auto n) { return add(nullptr, y, a, b, n); },
                  [](T a, T b) { return a + b; }, 0);
  check_binary<T>([](T* y, const T* a, const T* b, auto n) { return subtract(nullptr, y, a, b, n); },
                  [](T a, T b) { return a - b; }, 0);
  check_binary<T>([](T* y, const T* a, const T* b, auto n) { return multiply(nullptr, y, a, b, n); },
                  [](T a, T b) { return a * b; }, 0);
  check_binary<T>([](T* y, const T* a, const T* b, auto n) { return divide(nullptr, y, a, b, n); },
                  [](T a, T b) { return a / b; }, 0);
}

TEMPLATE_TEST_CASE("add takes whole numbers too, and bytes wrap at 256", "", std::int64_t, std::uint8_t) {
  using T = TestType;
  const DeviceArray<T> a(std::vector<T>{1, 200, 3}), b(std::vector<T>{5, 100, 250});
  REQUIRE(add(nullptr, a.data(), a.data(), b.data(), 3) == cudaSuccess);
  const bool bytes = sizeof(T) == 1;
  CHECK(a.to_host() == std::vector<T>{6, static_cast<T>(bytes ? 44 : 300), 253});
}

TEMPLATE_TEST_CASE("scale and add_scalar are exact to the bit", "", float, double) {
  using T = TestType;
  check_unary<T>([](T* y, const T* x, auto n) { return scale(nullptr, y, x, T(-1.5), n); },
                 [](T x) { return T(-1.5) * x; }, 0);
  check_unary<T>([](T* y, const T* x, auto n) { return add_scalar(nullptr, y, x, T(0.3), n); },
                 [](T x) { return x + T(0.3); }, 0);
}

TEMPLATE_TEST_CASE("exp, log and sqrt agree with the host's in extended precision, NaN and infinity included", "",
                   float, double) {
  using T = TestType;
  using Wide = long double;
  const double near = kRounding<T>;
  check_unary<T>([](T* y, const T* x, auto n) { return exp(nullptr, y, x, n); }, [](Wide x) { return std::exp(x); },
                 near);
  check_unary<T>([](T* y, const T* x, auto n) { return log(nullptr, y, x, n); }, [](Wide x) { return std::log(x); },
                 near);
  check_unary<T>([](T* y, const T* x, auto n) { return sqrt(nullptr, y, x, n); }, [](T x) { return std::sqrt(x); }, 0);
}

TEMPLATE_TEST_CASE("axpby is alpha x + beta y", "", float, double) {
  using T = TestType;
  for (const auto n : kLengths) {
    for (const int shift : {0, 1}) {
      CAPTURE(n, shift);
      const auto x = random_values<T>(n, 1), y = random_values<T>(n, 2);
      std::vector<T> expected(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) expected[i] = static_cast<T>(0.5L * x[i] - 3.0L * y[i]);
      const DeviceArray<T> x_there(x, shift), y_there(y);
      REQUIRE(axpby(nullptr, y_there.data(), T(0.5), x_there.data(), T(-3), n) == cudaSuccess);
      require_near(y_there.to_host(), expected, kRounding<T>);
      require_same(x_there.to_host(), x);
    }
  }
  const DeviceArray<T> same(std::vector<T>{1, 2, 3, 4, 5});
  REQUIRE(axpby(nullptr, same.data(), T(2), same.data(), T(1), 5) == cudaSuccess);
  CHECK(same.to_host() == std::vector<T>{3, 6, 9, 12, 15});
  CHECK(axpby<T>(nullptr, nullptr, T(1), nullptr, T(1), -1) == cudaErrorInvalidValue);
}

TEMPLATE_TEST_CASE("axpby with beta 0 never reads y", "", float, double) {
  for (const auto n : kLengths) {
    const auto x = random_values<TestType>(n, 1);
    const DeviceArray<TestType> x_there(x);
    const auto y = DeviceArray<TestType>::unset(n);  // NaN
    REQUIRE(axpby(nullptr, y.data(), TestType(1), x_there.data(), TestType(0), n) == cudaSuccess);
    require_same(y.to_host(), x);
  }
}

TEMPLATE_TEST_CASE("scale_by multiplies by a factor on the device", "", float, double) {
  using T = TestType;
  const DeviceArray<T> factor(std::vector<T>{T(-4)}, 1);
  check_unary<T>([&](T* y, const T* x, auto n) { return scale_by(nullptr, y, x, factor.data(), T(0.5), n); },
                 [](T x) { return T(-2) * x; }, 0);
}

TEMPLATE_TEST_CASE("expand_scalar repeats alpha times one element", "", float, double) {
  using T = TestType;
  const DeviceArray<T> x(std::vector<T>{T(3)}, 1);
  for (const auto n : kLengths) {
    for (const int shift : {0, 1}) {
      CAPTURE(n, shift);
      const auto y = DeviceArray<T>::unset(n, shift);
      REQUIRE(expand_scalar(nullptr, y.data(), x.data(), T(0.25), n) == cudaSuccess);
      require_same(y.to_host(), std::vector<T>(static_cast<std::size_t>(n), T(0.75)));
    }
  }
  CHECK(expand_scalar<T>(nullptr, nullptr, nullptr, T(1), 0) == cudaSuccess);
  CHECK(expand_scalar<T>(nullptr, nullptr, nullptr, T(1), -1) == cudaErrorInvalidValue);
}

TEMPLATE_TEST_CASE("expand_along repeats along the middle dimension", "", float, double) {
  using T = TestType;
  for (const std::int64_t outer : {0, 1, 2, 33}) {
    for (const std::int64_t length : {0, 1, 3, 65}) {
      for (const std::int64_t inner : {0, 1, 2, 31, 33}) {
        CAPTURE(outer, length, inner);
        const auto x = random_values<T>(outer * inner, 5);
        std::vector<T> expected;
        for (std::int64_t o = 0; o < outer; ++o) {
          for (std::int64_t l = 0; l < length; ++l) {
            for (std::int64_t i = 0; i < inner; ++i) expected.push_back(2 * x[static_cast<std::size_t>(o * inner + i)]);
          }
        }
        const DeviceArray<T> x_there(x, 1);
        const auto y = DeviceArray<T>::unset(outer * length * inner);
        REQUIRE(expand_along(nullptr, y.data(), x_there.data(), T(2), outer, length, inner) == cudaSuccess);
        require_same(y.to_host(), expected);
      }
    }
  }
  CHECK(expand_along<T>(nullptr, nullptr, nullptr, T(1), 1, -1, 1) == cudaErrorInvalidValue);
}

}  // namespace fanout::kernels
