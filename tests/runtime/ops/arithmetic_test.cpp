// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/arithmetic.h"

#include <catch2/catch.hpp>

#include "runtime/ops/shape.h"
#include "tests/runtime/gradcheck.h"

namespace fanout::testing {
namespace {

using Catch::Matchers::Contains;

TEMPLATE_TEST_CASE("arithmetic of tensors of one shape is exact on small integers", "", float, double) {
  const Tensor a = on_device<TestType>({6, -8, 10}, {3}), b = on_device<TestType>({2, 4, -5}, {3});
  CHECK(to_vector<TestType>(a + b) == std::vector<TestType>{8, -4, 5});
  CHECK(to_vector<TestType>(a - b) == std::vector<TestType>{4, -12, 15});
  CHECK(to_vector<TestType>(a * b) == std::vector<TestType>{12, -32, -50});
  CHECK(to_vector<TestType>(a / b) == std::vector<TestType>{3, -2, -2});
  CHECK(to_vector<TestType>(-a) == std::vector<TestType>{-6, 8, -10});
  CHECK(to_vector<TestType>(square(b)) == std::vector<TestType>{4, 16, 25});
}

TEMPLATE_TEST_CASE("arithmetic with a number works from both sides", "", float, double) {
  const Tensor x = on_device<TestType>({1, 2, 4}, {3});
  CHECK(to_vector<TestType>(x + 1) == std::vector<TestType>{2, 3, 5});
  CHECK(to_vector<TestType>(1 + x) == std::vector<TestType>{2, 3, 5});
  CHECK(to_vector<TestType>(x - 1) == std::vector<TestType>{0, 1, 3});
  CHECK(to_vector<TestType>(1 - x) == std::vector<TestType>{0, -1, -3});
  CHECK(to_vector<TestType>(x * 3) == std::vector<TestType>{3, 6, 12});
  CHECK(to_vector<TestType>(3 * x) == std::vector<TestType>{3, 6, 12});
  CHECK(to_vector<TestType>(x / 2) == std::vector<TestType>{0.5, 1, 2});
  CHECK(to_vector<TestType>(8 / x) == std::vector<TestType>{8, 4, 2});
}

TEST_CASE("the right operand is repeated over the leading dimensions of the left one") {
  const Tensor a = on_device<double>({1, 2, 3, 4, 5, 6}, {2, 3}), row = on_device<double>({10, 20, 30}, {3});
  const Tensor one = on_device<double>({2}, {1, 1});
  CHECK(to_vector<double>(a + row) == std::vector<double>{11, 22, 33, 14, 25, 36});
  CHECK(to_vector<double>(a * one) == std::vector<double>{2, 4, 6, 8, 10, 12});
  CHECK((a * one).shape() == Shape{2, 3});
}

TEST_CASE("exp, log and sqrt agree with the host's") {
  const Tensor x = random_tensor({3, 5}, 1, 0.5, 3);
  std::vector<double> exps, logs, roots;
  for (double value : to_vector<double>(x)) {
    exps.push_back(std::exp(value));
    logs.push_back(std::log(value));
    roots.push_back(std::sqrt(value));
  }
  require_close(to_vector<double>(exp(x)), exps);
  require_close(to_vector<double>(log(x)), logs);
  require_close(to_vector<double>(sqrt(x)), roots);
}

TEST_CASE("arithmetic has the first and second derivatives that differences give") {
  const Tensor a = random_tensor({3, 5}, 1), b = random_tensor({3, 5}, 2, 0.6, 2);
  const Tensor row = random_tensor({5}, 3, 0.6, 2), one = random_tensor({}, 4, 0.6, 2);
  const auto operation = GENERATE(as<Tensor (*)(const Tensor&, const Tensor&)>(),
                                  static_cast<Tensor (*)(const Tensor&, const Tensor&)>(operator+),
                                  static_cast<Tensor (*)(const Tensor&, const Tensor&)>(operator-),
                                  static_cast<Tensor (*)(const Tensor&, const Tensor&)>(operator*),
                                  static_cast<Tensor (*)(const Tensor&, const Tensor&)>(operator/));
  check_derivatives([&](const Inputs& in) { return operation(in[0], in[1]); }, {a, b});
  check_derivatives([&](const Inputs& in) { return operation(in[0], in[1]); }, {a, row});
  check_derivatives([&](const Inputs& in) { return operation(in[0], in[1]); }, {a, one});
  check_derivatives([&](const Inputs& in) { return operation(transpose(in[0]), transpose(in[1])); }, {a, b});
}

TEST_CASE("elementwise functions have the first and second derivatives that differences give") {
  const Tensor x = random_tensor({3, 5}, 5, 0.6, 2);
  const auto f = GENERATE(
      as<Tensor (*)(const Tensor&)>(), static_cast<Tensor (*)(const Tensor&)>(exp),
      static_cast<Tensor (*)(const Tensor&)>(log), static_cast<Tensor (*)(const Tensor&)>(sqrt),
      static_cast<Tensor (*)(const Tensor&)>(square), [](const Tensor& at) { return -at; },
      [](const Tensor& at) { return at * 1.5; }, [](const Tensor& at) { return 2 - at; },
      [](const Tensor& at) { return 2 / at; }, [](const Tensor& at) { return at / 3 + 1; });
  check_derivatives([&](const Inputs& in) { return f(in[0]); }, {x});
  check_derivatives([&](const Inputs& in) { return f(transpose(in[0])); }, {x});
}

TEST_CASE("arithmetic of empty tensors is empty") {
  const Tensor none = zeros({0, 3}, DType::f32, Device(0)).set_requires_grad();
  const Tensor result = exp(none * none + 1.0);
  CHECK(result.shape() == Shape{0, 3});
  sum(result).backward();
  CHECK(none.grad().shape() == Shape{0, 3});
}

TEST_CASE("arithmetic names shapes that do not fit") {
  const Tensor a = zeros({2, 3}, DType::f32, Device(0)), b = zeros({2}, DType::f32, Device(0));
  CHECK_THROWS_AS(a * b, InvalidArgument);
  CHECK_THROWS_WITH(a * b,
                    Contains("multiply: f32 [2, 3] on cuda:0 and f32 [2] on cuda:0") && Contains("last dimensions"));
  CHECK_THROWS_WITH(b - a, Contains("subtract"));
  CHECK_THROWS_WITH(a + zeros({2, 3}, DType::f64, Device(0)), Contains("add") && Contains("dtypes must agree"));
  CHECK_THROWS_WITH(exp(zeros({2}, DType::i64, Device(0))), Contains("exp") && Contains("i64"));
}

TEST_CASE("arithmetic names devices that differ, and says where a host tensor may come from") {
  const Tensor a = zeros({2}, DType::f32, Device(0)), b = zeros({2}, DType::f32, Device(1));
  const Tensor host = zeros({2}, DType::f32, Device::host());
  CHECK_THROWS_AS(a / b, PlacementError);
  CHECK_THROWS_WITH(a / b, Contains("divide: tensors on cuda:0 and cuda:1"));
  CHECK_THROWS_AS(a + host, PlacementError);
  CHECK_THROWS_WITH(a + host,
                    Contains("on cpu") && Contains("is it in its module's visit? did to(module, device) run?"));
  CHECK_THROWS_AS(sqrt(host), PlacementError);
  CHECK_THROWS_WITH(a + Tensor(), Contains("add") && Contains("undefined tensor"));
}

}  // namespace
}  // namespace fanout::testing
