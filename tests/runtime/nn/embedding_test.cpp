// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/embedding.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "runtime/autograd/sparse.h"
#include "runtime/nn/linear.h"
#include "runtime/nn/move.h"
#include "runtime/nn/sequential.h"
#include "runtime/ops/reduce.h"
#include "runtime/tensor/copy.h"

using namespace fanout;

namespace {

Tensor on_device(const std::vector<std::int64_t>& numbers) {
  return copied_to(from_vector(numbers, {static_cast<std::int64_t>(numbers.size())}), Device(0));
}

}  // namespace

TEST_CASE("Embedding starts as numbers with mean 0 and deviation 1, f32 and dense") {
  const Embedding layer(500, 40);
  CHECK(layer.weight.shape() == Shape{500, 40});
  CHECK(layer.weight.dtype() == DType::f32);
  CHECK_FALSE(layer.sparse);
  const std::vector<float> values = to_vector<float>(layer.weight);
  const double count = 20000, mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  const double square = std::inner_product(values.begin(), values.end(), values.begin(), 0.0) / count;
  CHECK(std::abs(mean) < 4 / std::sqrt(count));                       // 4 deviations of the mean
  CHECK(std::abs(square - 1) < 4 * std::sqrt(2) / std::sqrt(count));  // and of the mean square
}

TEST_CASE("Embedding looks its rows up, as a layer too") {
  Embedding layer(3, 2, {.dtype = DType::f64});
  copy(layer.weight, from_vector<double>({0, 1, 2, 3, 4, 5}, {3, 2}));
  Linear sums(2, 1, false, DType::f64);
  copy(sums.weight, from_vector<double>({1, 10}, {1, 2}));
  Sequential net(layer, sums);
  to(net, Device(0));
  CHECK(to_vector<double>(layer(on_device({2, 0, 2}))) == std::vector<double>{4, 5, 0, 1, 4, 5});
  CHECK(to_vector<double>(net(on_device({2, 0}))) == std::vector<double>{54, 10});
  CHECK(named_parameters(net)[0].name == "0.weight");
}

TEST_CASE("a sparse Embedding's gradient is the rows that were used, it goes with to(module, device)") {
  Embedding layer(1000, 2, {.sparse = true});
  to(layer, Device(0));
  sum(layer(on_device({5, 5, 9}))).backward();
  const SparseRows rows = sparse_grad(layer.weight).value();
  CHECK(to_vector<std::int64_t>(rows.indices) == std::vector<std::int64_t>{5, 5, 9});
  CHECK(to_vector<float>(rows.values) == std::vector<float>(6, 1));
  zero_grad(layer);
  CHECK_FALSE(layer.weight.grad().defined());
  sum(layer(on_device({1}))).backward();
  to(layer, Device(1));
  CHECK_FALSE(sparse_grad(layer.weight).has_value());  // a move forgets gradients
}

TEST_CASE("Embedding refuses sizes below 1") {
  CHECK_THROWS_AS(Embedding(0, 2), InvalidArgument);
  CHECK_THROWS_WITH(Embedding(3, 0), "Embedding(3, 0): count and width must be at least 1");
}
