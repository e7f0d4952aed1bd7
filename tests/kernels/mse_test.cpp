// SPDX-License-Identifier: Apache-2.0
#include "kernels/mse.h"

#include "tests/kernels/matrix_check.h"

namespace fanout::kernels {
namespace {

template <class T>
T loss_of(const std::vector<T>& x, const std::vector<T>& target, bool with_workspace = true) {
  const DeviceArray<T> a(x), b(target);
  const auto loss = DeviceArray<T>::unset(1);
  const auto workspace = DeviceArray<T>::unset(mean_squared_error_workspace_elements(a.size()));
  REQUIRE(mean_squared_error(nullptr, loss.data(), with_workspace ? workspace.data() : nullptr, a.data(), b.data(),
                             a.size()) == cudaSuccess);
  return loss.to_host()[0];
}

TEMPLATE_TEST_CASE("mean_squared_error agrees with long double at every length", "", float, double) {
  auto lengths = kLengths;
  lengths.insert(lengths.end(), {20'011, (1 << 17) + 13});
  for (const auto n : lengths) {
    CAPTURE(n);
    const auto x = random_values<TestType>(n, 1, 1000, 1003), target = random_values<TestType>(n, 2, 1000, 1003);
    long double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const long double difference = static_cast<long double>(x[i]) - target[i];
      sum += difference * difference;
    }
    const std::vector<double> expected(1, static_cast<double>(sum / n));
    require_near(std::vector<TestType>{loss_of(x, target)}, expected, kRounding<TestType>);
    require_near(std::vector<TestType>{loss_of(x, target, false)}, expected, kRounding<TestType>);
  }
}

TEST_CASE("the mean of nothing is NaN, as in torch") {
  CHECK(std::isnan(loss_of<float>({}, {})));
}

TEMPLATE_TEST_CASE("mean_squared_error_backward is 2 (x - target) upstream / n, in place too", "", float, double) {
  for (const auto n : kLengths) {
    CAPTURE(n);
    const auto x = random_values<TestType>(n, 1), target = random_values<TestType>(n, 2);
    std::vector<double> expected(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      expected[i] = 2.0 / static_cast<double>(n) * 3 * (static_cast<double>(x[i]) - static_cast<double>(target[i]));
    }
    const DeviceArray<TestType> a(x), b(target), upstream({TestType(3)});
    const auto dx = DeviceArray<TestType>::unset(n);
    REQUIRE(mean_squared_error_backward(nullptr, dx.data(), a.data(), b.data(), upstream.data(), n) == cudaSuccess);
    require_near(dx.to_host(), expected, kRounding<TestType>);
    const DeviceArray<TestType> over_x(x), over_target(target);
    REQUIRE(mean_squared_error_backward(nullptr, over_x.data(), over_x.data(), b.data(), upstream.data(), n) ==
            cudaSuccess);
    require_near(over_x.to_host(), expected, kRounding<TestType>);
    REQUIRE(mean_squared_error_backward(nullptr, over_target.data(), a.data(), over_target.data(), upstream.data(),
                                        n) == cudaSuccess);
    require_near(over_target.to_host(), expected, kRounding<TestType>);
  }
}

TEST_CASE("mean_squared_error_backward agrees with finite differences") {
  const auto x = random_values<double>(33, 1), target = random_values<double>(33, 2);
  const DeviceArray<double> a(x), b(target), upstream({1.0});
  const auto dx = DeviceArray<double>::unset(33);
  REQUIRE(mean_squared_error_backward(nullptr, dx.data(), a.data(), b.data(), upstream.data(), 33) == cudaSuccess);
  const auto loss = [&](const std::vector<double>& at) { return loss_of(at, target); };
  require_near(dx.to_host(), finite_differences(x, loss), kDifferenceTolerance);
}

TEST_CASE("mean_squared_error refuses a negative length") {
  float* const none = nullptr;
  CHECK(mean_squared_error<float>(nullptr, none, none, none, none, -1) == cudaErrorInvalidValue);
  CHECK(mean_squared_error_backward<float>(nullptr, none, none, none, none, -1) == cudaErrorInvalidValue);
}

}  // namespace
}  // namespace fanout::kernels
