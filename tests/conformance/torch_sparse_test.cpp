// SPDX-License-Identifier: Apache-2.0
// What torch's own tests ask of sparse gradients through DataParallel.
#include <catch2/catch.hpp>

#include "runtime/autograd/backward.h"
#include "runtime/autograd/sparse.h"
#include "runtime/nn/embedding.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/ops/reduce.h"
#include "runtime/ops/shape.h"
#include "runtime/optim/sgd.h"
#include "runtime/parallel/data_parallel.h"
#include "tests/conformance/comparison.h"

using namespace fanout;
using namespace fanout::test;

namespace {

Embedding table_on(Device device) {
  manual_seed(11);
  Embedding table(10, 5, {.sparse = true, .dtype = DType::f64});
  to(table, device);
  return table;
}

/// [20, 5] row numbers below 9: the last row of the table stays unused.
Tensor row_numbers(Device device) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < 100; ++i) values.push_back(i * i * 7 % 9);
  return copied_to(from_vector(values, {20, 5}), device);
}

void check_same_rows(const Tensor& actual, const Tensor& expected) {
  const auto of_actual = sparse_grad(actual), of_expected = sparse_grad(expected);
  REQUIRE(of_actual);
  REQUIRE(of_expected);
  CHECK(of_actual->rows == 10);
  CHECK(of_actual->values.device() == actual.device());
  CHECK(of_actual->indices.elements() == 100);  // one for each use: torch leaves the sum uncoalesced too
  const SparseRows left = coalesced(*of_actual), right = coalesced(*of_expected);
  CHECK(to_vector<std::int64_t>(left.indices) == to_vector<std::int64_t>(right.indices));
  CHECK(largest_difference(values_of(left.values), values_of(right.values)) < kTolerance);
}

}  // namespace

TEST_CASE("the gradient of a sparse embedding stays sparse and equals the plain one, ids in any order",
          "[torch 9.1.13 test_data_parallel_sparse]") {
  const Tensor indices = row_numbers(Device(1)), weights = numbers({20, 5, 5}, 3);
  const auto loss_of = [&](const Tensor& output) { return sum(output * to(weights, output.device())); };
  Embedding alone = table_on(Device(1));
  const Tensor expected = alone(indices);
  loss_of(expected).backward();
  for (const std::vector<int>& ids : {std::vector<int>{0, 1}, {1, 0}, {2, 0, 1}}) {
    const DeviceGuard current((Device(ids[0])));
    Embedding table = table_on(Device(ids[0]));
    const Tensor output = data_parallel(table, ids, {}, indices);
    CHECK(output.device() == Device(ids[0]));
    CHECK(difference(output, to(expected, output.device())) == 0);
    loss_of(output).backward();
    check_same_rows(table.weight, alone.weight);
  }
  Embedding table = table_on(Device(0));
  CHECK(difference(data_parallel(table, {}, {}, indices), to(expected, Device(0))) == 0);
}

TEST_CASE("two backwards and a step of SGD with sparse gradients leave one device's table, unused rows untouched") {
  Embedding alone = table_on(Device(0)), wrapped = table_on(Device(0));
  DataParallel parallel(wrapped, {0, 1, 2});
  const Tensor indices = row_numbers(Device(0));
  const std::vector<double> before = values_of(narrow(wrapped.weight, 0, 9, 1));
  Sgd alone_sgd(parameters(alone), {.learning_rate = 0.1}), wrapped_sgd(parameters(wrapped), {.learning_rate = 0.1});
  for (int step = 0; step < 2; ++step) {
    for (int pass = 0; pass < 2; ++pass) {
      sum(square(alone(indices))).backward();
      sum(square(parallel(indices))).backward();
    }
    REQUIRE(sparse_grad(wrapped.weight));
    alone_sgd.step();
    wrapped_sgd.step();
    alone_sgd.zero_grad();
    wrapped_sgd.zero_grad();
    CHECK(difference(wrapped.weight, alone.weight) < kTolerance);
  }
  CHECK(values_of(narrow(wrapped.weight, 0, 9, 1)) == before);
}
