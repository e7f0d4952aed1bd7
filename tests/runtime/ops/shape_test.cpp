// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/shape.h"

#include <catch2/catch.hpp>

#include "tests/runtime/gradcheck.h"

namespace fanout::testing {
namespace {

using Catch::Matchers::Contains;

Tensor counting(const Shape& shape) {
  std::vector<double> values(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return on_device(values, shape);
}

TEST_CASE("reshape, transpose and narrow are views of the same storage") {
  const Tensor x = counting({2, 3});
  const Tensor flat = reshape(x, {-1}), turned = transpose(x), part = narrow(x, 1, 1, 2);
  CHECK(flat.shape() == Shape{6});
  CHECK(to_vector<double>(turned) == std::vector<double>{0, 3, 1, 4, 2, 5});
  CHECK(to_vector<double>(part) == std::vector<double>{1, 2, 4, 5});
  copy(part, full({2, 2}, 9, DType::f64, Device(0)));
  CHECK(to_vector<double>(flat) == std::vector<double>{0, 9, 9, 3, 9, 9});
  CHECK(flat.version() == x.version());
  CHECK(turned.version() == x.version());
}

TEST_CASE("reshape finds the size that is left, and copies what has gaps") {
  const Tensor x = counting({2, 3, 4});
  CHECK(reshape(x, {4, -1}).shape() == Shape{4, 6});
  CHECK(reshape(x, Shape{24}).raw_data() == x.raw_data());
  CHECK(to_vector<double>(reshape(transpose(counting({2, 3})), {6})) == std::vector<double>{0, 3, 1, 4, 2, 5});
  CHECK(reshape(counting({1}), std::initializer_list<std::int64_t>{}).shape() == Shape{});
  CHECK(flatten(x).shape() == Shape{2, 12});
  CHECK(flatten(x, 0).shape() == Shape{24});
  CHECK(flatten(x, -1).shape() == Shape{2, 3, 4});
}

TEST_CASE("concat puts tensors one behind the other along any dimension") {
  const Tensor a = counting({2, 2}), b = counting({2, 1});
  const Tensor wide = concat({a, b, transpose(a)}, 1);
  CHECK(wide.shape() == Shape{2, 5});
  CHECK(to_vector<double>(wide) == std::vector<double>{0, 1, 0, 0, 2, 2, 3, 1, 1, 3});
  CHECK(to_vector<double>(concat({a, narrow(a, 0, 1, 0), a})) == std::vector<double>{0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(concat({from_vector<std::uint8_t>({1, 2}, {2}), from_vector<std::uint8_t>({3}, {1})}).shape() == Shape{3});
}

TEST_CASE("contiguous and to give the tensor itself where nothing is to do") {
  const Tensor x = counting({2, 3});
  CHECK(contiguous(x).handle() == x.handle());
  CHECK(to(x, Device(0)).handle() == x.handle());
  CHECK(contiguous(transpose(x)).is_contiguous());
  CHECK(to_vector<double>(to(transpose(x), Device(1))) == std::vector<double>{0, 3, 1, 4, 2, 5});
  CHECK(to(x, Device(1)).device() == Device(1));
  CHECK(to(to(x, Device::host()), Device(2)).device() == Device(2));
}

TEST_CASE("shape operators have the first and second derivatives that differences give") {
  const Tensor x = random_tensor({2, 3, 5}, 1);
  const auto f = GENERATE(
      as<Tensor (*)(const Tensor&)>(),
      [](const Tensor& at) {
        return reshape(at, {5, -1});
      },
      [](const Tensor& at) {
        return reshape(transpose(at, 0, 2), {6, 5});
      },
      [](const Tensor& at) { return flatten(at); }, [](const Tensor& at) { return transpose(at, -1, 0); },
      [](const Tensor& at) { return narrow(at, 0, 1, 1); }, [](const Tensor& at) { return narrow(at, -1, 1, 3); },
      [](const Tensor& at) { return narrow(at, 1, 1, 0); },
      [](const Tensor& at) {
        return concat({at, square(at), at}, 1);
      },
      [](const Tensor& at) {
        return concat({narrow(at, 1, 0, 1), narrow(at, 1, 0, 2), narrow(at, 1, 2, 1)}, 1);
      },
      [](const Tensor& at) { return contiguous(transpose(at, 0, 1)); },
      [](const Tensor& at) {
        return expand(at, {2, 2, 3, 5});
      },
      [](const Tensor& at) { return to(square(to(at, Device(1))), Device(0)); },
      [](const Tensor& at) { return to(to(at, Device::host()), Device(0)); });
  check_derivatives([&](const Inputs& in) { return f(in[0]); }, {x});
  check_derivatives([&](const Inputs& in) { return square(f(square(in[0]))); }, {x});
}

TEST_CASE("ranges of one tensor add up in its gradient, on either side of a gap") {
  const Tensor x = leaf_of(counting({2, 4}));
  const Tensor loss = sum(narrow(x, 1, 0, 2)) + sum(narrow(x, 1, 1, 2) * 10) + sum(narrow(x, 0, 1, 1) * 100);
  loss.backward();
  CHECK(to_vector<double>(x.grad()) == std::vector<double>{1, 11, 10, 0, 101, 111, 110, 100});
}

TEST_CASE("concat of more tensors than a node keeps in place gives each its gradient") {
  std::vector<Tensor> leaves;
  for (int i = 0; i < 5; ++i) leaves.push_back(leaf_of(counting({1, 2})));
  const Tensor constant = counting({1, 2});
  sum(concat({leaves[0], leaves[1], constant, leaves[2], leaves[3], leaves[4]}, 0) * counting({6, 2})).backward();
  CHECK(to_vector<double>(leaves[1].grad()) == std::vector<double>{2, 3});
  CHECK(to_vector<double>(leaves[2].grad()) == std::vector<double>{6, 7});
  CHECK(to_vector<double>(leaves[4].grad()) == std::vector<double>{10, 11});
}

TEST_CASE("shape operators name what does not fit") {
  const Tensor x = counting({2, 3});
  CHECK_THROWS_WITH(reshape(x, {4, -1}),
                    Contains("reshape: f64 [2, 3] on cuda:0 has 6 elements") && Contains("[4, -1]"));
  CHECK_THROWS_AS(reshape(x, {-1, -1}), InvalidArgument);
  CHECK_THROWS_AS(reshape(x, {-2, -3}), InvalidArgument);
  CHECK_THROWS_AS(reshape(counting({0}), {0, -1}), InvalidArgument);
  CHECK_THROWS_WITH(narrow(x, 1, 2, 2), Contains("narrow: 2 elements from 2 of dimension 1, which has 3"));
  CHECK_THROWS_AS(narrow(x, 2, 0, 1), InvalidArgument);
  CHECK_THROWS_AS(narrow(x, 0, -1, 1), InvalidArgument);
  CHECK_THROWS_AS(transpose(counting({3})), InvalidArgument);
  CHECK_THROWS_WITH(concat({x, counting({3, 3}), counting({2, 2})}),
                    Contains("concat: tensor 0 is f64 [2, 3] on cuda:0 and tensor 2 is f64 [2, 2] on cuda:0"));
  CHECK_THROWS_AS(concat({x, zeros({2, 3}, DType::f64, Device(1))}), PlacementError);
  CHECK_THROWS_AS(concat({}), InvalidArgument);
  CHECK_THROWS_AS(expand(x, {3, 2}), InvalidArgument);
  CHECK_THROWS_AS(to(Tensor(), Device(0)), InvalidArgument);
}

}  // namespace
}  // namespace fanout::testing
