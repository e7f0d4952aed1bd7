// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/reduce.h"

#include <catch2/catch.hpp>

#include <limits>

#include "runtime/ops/shape.h"
#include "tests/runtime/gradcheck.h"

namespace fanout::testing {
namespace {

using Catch::Matchers::Contains;

TEMPLATE_TEST_CASE("sums and means go over all elements or one dimension", "", float, double) {
  const Tensor x = on_device<TestType>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {2, 3, 2});
  CHECK(sum(x).shape() == Shape{});
  CHECK(item(sum(x)) == 78);
  CHECK(item(mean(x)) == 6.5);
  CHECK(to_vector<TestType>(sum(x, 0)) == std::vector<TestType>{8, 10, 12, 14, 16, 18});
  CHECK(to_vector<TestType>(sum(x, 1)) == std::vector<TestType>{9, 12, 27, 30});
  CHECK(to_vector<TestType>(mean(x, -1)) == std::vector<TestType>{1.5, 3.5, 5.5, 7.5, 9.5, 11.5});
  CHECK(sum(x, 1).shape() == Shape{2, 2});
  CHECK(sum(x, 1, true).shape() == Shape{2, 1, 2});
  CHECK(mean(x, -1, true).shape() == Shape{2, 3, 1});
}

TEST_CASE("an empty sum is 0, an empty mean is refused, one along a dimension NaN") {
  const Tensor none = zeros({0, 3}, DType::f64, Device(0));
  CHECK(item(sum(none)) == 0);
  CHECK_THROWS_WITH(mean(none),
                    "mean: f64 [0, 3] on cuda:0; there is nothing to take a mean of: skip the step, or use sum");
  CHECK(to_vector<double>(sum(none, 0)) == std::vector<double>{0, 0, 0});
  CHECK(sum(none, 1).shape() == Shape{0});
}

TEST_CASE("reductions have the first and second derivatives that differences give") {
  const Tensor x = random_tensor({2, 3, 5}, 1);
  const auto f = GENERATE(
      as<Tensor (*)(const Tensor&)>(), [](const Tensor& at) { return sum(at); },
      [](const Tensor& at) { return mean(at); }, [](const Tensor& at) { return sum(at, 0); },
      [](const Tensor& at) { return sum(at, 1, true); }, [](const Tensor& at) { return mean(at, -1); },
      [](const Tensor& at) { return mean(at, 0, true); });
  check_derivatives([&](const Inputs& in) { return f(in[0]); }, {x});
  check_derivatives([&](const Inputs& in) { return square(f(square(in[0]))); }, {x});
  check_derivatives([&](const Inputs& in) { return f(transpose(in[0], 0, 2)); }, {x});
}

TEST_CASE("argmax gives the first maximum, a NaN counting as one") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = on_device<double>({1, 3, 3, 5, 2, 4, 0, nan, 9}, {3, 1, 3});
  CHECK(argmax(x).shape() == Shape{3, 1});
  CHECK(to_vector<std::int64_t>(argmax(x)) == std::vector<std::int64_t>{1, 0, 1});
  CHECK(to_vector<std::int64_t>(argmax(transpose(reshape(x, {3, 3})))) == std::vector<std::int64_t>{1, 2, 2});
}

TEST_CASE("count_correct counts the rows whose maximum is at their label") {
  const Tensor logits = on_device<float>({1, 2, 3, 4, 6, 5}, {3, 2});
  const Tensor labels = on_device<std::int64_t>({1, 0, 0}, {3});
  const Tensor count = count_correct(logits, labels);
  CHECK(count.dtype() == DType::i64);
  CHECK(item(count) == 2);
  CHECK(item(count_correct(zeros({0, 2}, DType::f32, Device(0)), zeros({0}, DType::i64, Device(0)))) == 0);
}

TEST_CASE("reductions name what is wrong") {
  const Tensor x = zeros({2, 3}, DType::f32, Device(0));
  CHECK_THROWS_AS(sum(x, 2), InvalidArgument);
  CHECK_THROWS_AS(mean(zeros({2}, DType::f32, Device::host())), PlacementError);
  CHECK_THROWS_WITH(argmax(zeros({2, 0}, DType::f32, Device(0))), Contains("argmax") && Contains("[2, 0]"));
  CHECK_THROWS_WITH(count_correct(x, zeros({3}, DType::i64, Device(0))), Contains("logits [n, c] and i64 labels [n]"));
  CHECK_THROWS_WITH(count_correct(x, zeros({2}, DType::f32, Device(0))), Contains("count_correct"));
  CHECK_THROWS_AS(count_correct(x, zeros({2}, DType::i64, Device(1))), PlacementError);
}

}  // namespace
}  // namespace fanout::testing
