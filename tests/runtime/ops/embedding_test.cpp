// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/embedding.h"

#include <catch2/catch.hpp>

#include "runtime/autograd/grad.h"
#include "runtime/autograd/hook.h"
#include "runtime/autograd/sparse.h"
#include "runtime/ops/activation.h"
#include "runtime/ops/shape.h"
#include "tests/runtime/gradcheck.h"

namespace fanout::testing {
namespace {

using Catch::Matchers::Contains;
using Values = std::vector<double>;
using Numbers = std::vector<std::int64_t>;

Tensor at(const Numbers& numbers) {
  return on_device(numbers, {static_cast<std::int64_t>(numbers.size())});
}

// Rows 0 1, 2 3, 4 5, …
Tensor table(std::int64_t rows) {
  Values values;
  for (std::int64_t i = 0; i < 2 * rows; ++i) values.push_back(static_cast<double>(i));
  return on_device(values, {rows, 2}).set_requires_grad();
}

// One backward that brings `row` times each of `numbers` to `weight`.
void use(const Tensor& weight, const Numbers& numbers, double row, bool sparse = true) {
  sum(embedding(at(numbers), weight, sparse) * row).backward();
}

TEST_CASE("embedding gives the rows that the indices name, in the indices' shape") {
  const Tensor weight = table(3);
  const Tensor rows = embedding(on_device<std::int64_t>({2, 0, 0, 1}, {2, 2}), weight);
  CHECK(rows.shape() == Shape{2, 2, 2});
  CHECK(to_vector<double>(rows) == Values{4, 5, 0, 1, 0, 1, 2, 3});
  CHECK(to_vector<double>(embedding(on_device<std::int64_t>({1}, {}), weight)) == Values{2, 3});
  CHECK(embedding(at({}), weight).shape() == Shape{0, 2});
}

TEST_CASE("embedding reads indices and weights with gaps") {
  const Tensor weight = on_device<double>({0, 2, 4, 1, 3, 5}, {2, 3});
  const Tensor numbers = on_device<std::int64_t>({2, 0, 1, 1}, {2, 2});
  CHECK(to_vector<double>(embedding(transpose(numbers), transpose(weight))) == Values{4, 5, 2, 3, 0, 1, 2, 3});
}

TEST_CASE("embedding has the first and second derivatives that differences give") {
  const Tensor numbers = on_device<std::int64_t>({3, 0, 3, 1, 3, 0}, {2, 3});
  check_derivatives([&](const Inputs& in) { return tanh(embedding(numbers, in[0])); }, {random_tensor({5, 4}, 1)});
  check_derivatives([&](const Inputs& in) { return tanh(embedding(numbers, square(in[0]), true)); },
                    {random_tensor({5, 4}, 1)});
}

TEST_CASE("two uses of a table and two backwards add up, dense and sparse alike") {
  const bool sparse = GENERATE(false, true);
  const Tensor weight = table(4);
  sum(embedding(at({1, 3, 1}), weight, sparse) * 2 + embedding(at({1, 1, 0}), weight, sparse) * 5).backward();
  CHECK(gradient_of(weight) == Values{5, 5, 14, 14, 0, 0, 2, 2});
  use(weight, {2, 2}, 1, sparse);
  CHECK(gradient_of(weight) == Values{5, 5, 14, 14, 2, 2, 2, 2});
  CHECK(sparse_grad(weight).has_value() == sparse);
}

TEST_CASE("an index outside the table makes its row NaN, and gives no gradient") {
  const bool sparse = GENERATE(false, true);
  const Tensor weight = table(2);
  const Tensor rows = embedding(at({-1, 1, 2}), weight, sparse);
  const Values values = to_vector<double>(rows);
  CHECK((std::isnan(values[0]) && std::isnan(values[1]) && std::isnan(values[4]) && std::isnan(values[5])));
  CHECK((values[2] == 2 && values[3] == 3));
  sum(rows * 3).backward();
  CHECK(gradient_of(weight) == Values{0, 0, 3, 3});
}

TEST_CASE("embedding refuses other operands and names them") {
  const Tensor weight = table(2);
  CHECK_THROWS_AS(embedding(zeros({2}, DType::f64, Device(0)), weight), InvalidArgument);
  CHECK_THROWS_WITH(
      embedding(zeros({2}, DType::f64, Device(0)), weight),
      "embedding: f64 [2] on cuda:0 and f64 [2, 2] on cuda:0; they must be i64 indices and a weight [rows, width]");
  CHECK_THROWS_WITH(embedding(at({0}), at({0})), Contains("they must be i64 indices and a weight"));
  CHECK_THROWS_AS(embedding(from_vector<std::int64_t>({0}, {1}), weight), PlacementError);
  CHECK_THROWS_AS(embedding(on_device<std::int64_t>({0}, {1}, Device(1)), weight), PlacementError);
}

TEST_CASE("indices that are written between forward and backward are found") {
  const Tensor weight = table(2), numbers = at({0, 1});
  const Tensor y = sum(embedding(numbers, weight));
  copy(numbers, at({1, 1}));
  CHECK_THROWS_WITH(y.backward(), Contains("embedding: a tensor saved for backward") && Contains("written in place"));
}

TEST_CASE("a sparse gradient has the rows that were used, in order, those of later backwards behind") {
  const Tensor weight = table(1000);
  CHECK_FALSE(sparse_grad(weight).has_value());
  use(weight, {7, 2, 7}, 3);
  use(weight, {2, 999}, 4);
  const SparseRows rows = sparse_grad(weight).value();
  CHECK(rows.rows == 1000);
  CHECK(to_vector<std::int64_t>(rows.indices) == Numbers{7, 2, 7, 2, 999});
  CHECK(to_vector<double>(rows.values) == Values{3, 3, 3, 3, 3, 3, 4, 4, 4, 4});
  const SparseRows once = coalesced(rows);
  CHECK(to_vector<std::int64_t>(once.indices) == Numbers{2, 7, 999});
  CHECK(to_vector<double>(once.values) == Values{7, 7, 6, 6, 4, 4});
  CHECK(once.rows == 1000);
  CHECK(weight.grad().shape() == weight.shape());
  CHECK(to_vector<double>(weight.grad()) == to_vector<double>(dense_of(once)));
  weight.clear_grad();
  CHECK_FALSE(sparse_grad(weight).has_value());
  CHECK_FALSE(weight.grad().defined());
}

TEST_CASE("coalesced sums equal rows in the order in which they came, and rows of nothing") {
  const Tensor values = on_device<double>({1e16, 1, 1, 1e16, -1e16, -1e16}, {6, 1});
  const SparseRows once = coalesced({at({8, 4, 8, 4, 8, 4}), values, 10});
  CHECK(to_vector<std::int64_t>(once.indices) == Numbers{4, 8});
  CHECK(to_vector<double>(once.values) == Values{0, 0});
  const SparseRows none = coalesced({at({}), zeros({0, 3}, DType::f64, Device(0)), 10});
  CHECK(none.values.shape() == Shape{0, 3});
  CHECK(dense_of(none).shape() == Shape{10, 3});
}

TEST_CASE("a dense contribution makes a sparse gradient dense, and a sparse one is added to a dense one") {
  const bool sparse_first = GENERATE(false, true);
  const Tensor weight = table(3);
  const auto dense = [&] { sum(weight * 10).backward(); };
  if (!sparse_first) dense();
  use(weight, {1, 1}, 2);
  if (sparse_first) dense();
  CHECK_FALSE(sparse_grad(weight).has_value());
  CHECK(gradient_of(weight) == Values{10, 10, 14, 14, 10, 10});
  weight.clear_grad();
  (sum(embedding(at({0}), weight, true)) + sum(weight)).backward();  // both in one pass
  CHECK(gradient_of(weight) == Values{2, 2, 1, 1, 1, 1});
}

TEST_CASE("a kept sparse gradient shares no memory with the indices, the upstream gradient or the graph") {
  const Tensor weight = table(3), numbers = at({2, 0}), upstream = on_device<double>({1, 2, 3, 4}, {2, 2});
  backward(embedding(numbers, weight, true), upstream);
  copy(numbers, at({1, 1}));
  copy(upstream, zeros({2, 2}, DType::f64, Device(0)));
  CHECK(gradient_of(weight) == Values{3, 4, 0, 0, 1, 2});
}

TEST_CASE("hooks and grad see the dense equivalent of a sparse gradient") {
  const Tensor weight = table(3);
  Values seen;
  const HookHandle handle = register_hook(weight, [&](const Tensor& gradient) {
    seen = to_vector<double>(gradient);
    return gradient * 2;
  });
  use(weight, {1, 1}, 2);
  CHECK(seen == Values{0, 0, 4, 4, 0, 0});
  CHECK(gradient_of(weight) == Values{0, 0, 8, 8, 0, 0});
  handle.remove();
  weight.clear_grad();
  const Tensor gradient = grad(sum(embedding(at({1, 1}), weight, true)), {weight})[0];
  CHECK(to_vector<double>(gradient) == Values{0, 0, 2, 2, 0, 0});
  CHECK_FALSE(weight.grad().defined());
}

TEST_CASE("a sparse gradient on its way to another device or through an operator becomes dense") {
  const Tensor weight = table(3), moved = to(weight, Device(1));
  sum(embedding(on_device<std::int64_t>({1, 1}, {2}, Device(1)), moved, true)).backward();
  CHECK(gradient_of(weight) == Values{0, 0, 2, 2, 0, 0});
  CHECK(weight.grad().device() == Device(0));
  weight.clear_grad();
  sum(embedding(at({2}), weight * 5, true)).backward();
  CHECK(gradient_of(weight) == Values{0, 0, 0, 0, 5, 5});
}

}  // namespace
}  // namespace fanout::testing
