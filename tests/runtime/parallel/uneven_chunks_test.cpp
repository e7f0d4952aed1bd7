// SPDX-License-Identifier: Apache-2.0
// DataParallel with chunks of the caller's choice, idle devices, and inputs that are not split.
#include <catch2/catch.hpp>
#include <numeric>

#include "runtime/ops/arithmetic.h"
#include "runtime/ops/reduce.h"
#include "runtime/ops/shape.h"
#include "runtime/parallel/chunk.h"
#include "runtime/parallel/data_parallel.h"
#include "tests/runtime/parallel/test_nets.h"

using namespace fanout;
using namespace fanout::test;
using Sizes = std::vector<std::int64_t>;

namespace {

DataParallelOptions with_sizes(Sizes sizes) {
  DataParallelOptions options;
  options.chunk_sizes = std::move(sizes);
  return options;
}

DataParallelOptions with_weights(std::vector<double> weights) {
  DataParallelOptions options;
  options.weights = std::move(weights);
  return options;
}

// A forward and backward on several devices against one.
void check_against_one_device(const std::vector<int>& ids, const DataParallelOptions& options, std::int64_t rows,
                              const Sizes& expected_sizes) {
  Net alone = seeded_on<Net>(Device(ids[0])), wrapped = seeded_on<Net>(Device(ids[0]));
  DataParallel parallel(wrapped, ids, options);
  const Tensor x = numbers({rows, 6});
  for (int round = 0; round < 2; ++round) {
    const Tensor expected = alone(to(x, Device(ids[0]))), output = parallel(x);
    CHECK(parallel.piece_sizes() == expected_sizes);
    CHECK(largest_difference(values_of(output), values_of(expected)) < kTolerance);
    sum(square(expected)).backward();
    sum(square(output)).backward();
    CHECK(gradient_difference(alone, wrapped) < kTolerance);
  }
}

}  // namespace

TEST_CASE("weighted chunks are exact shares, the rows left over go to the largest fractions") {
  CHECK(weighted_chunk_sizes(13, {2, 1, 1}) == Sizes{7, 3, 3});
  CHECK(weighted_chunk_sizes(12, {2, 1, 1}) == Sizes{6, 3, 3});
  CHECK(weighted_chunk_sizes(1, {1, 1, 1}) == Sizes{1, 0, 0});
  CHECK(weighted_chunk_sizes(5, {0, 1, 1}) == Sizes{0, 3, 2});
  CHECK(weighted_chunk_sizes(0, {1, 2}) == Sizes{0, 0});
  for (std::int64_t rows = 0; rows < 100; ++rows) {
    const Sizes sizes = weighted_chunk_sizes(rows, {0.1, 0.7, 0.3, 1e-9});
    CHECK(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) == rows);
  }
  CHECK_THROWS_WITH(weighted_chunk_sizes(3, {1, -1}),
                    "weights [1, -1]: each must be a finite number from 0, and one above 0");
  CHECK_THROWS_AS(weighted_chunk_sizes(3, {0, 0}), InvalidArgument);
  CHECK_THROWS_AS(weighted_chunk_sizes(3, {1, NAN}), InvalidArgument);
}

TEST_CASE("chunks as asked for, idle devices in any place included, give one device's outputs and gradients") {
  check_against_one_device({0, 1, 2}, with_sizes({6, 4, 2}), 12, {6, 4, 2});
  check_against_one_device({2, 0, 1}, with_sizes({1, 0, 5}), 6, {1, 0, 5});
  check_against_one_device({0, 1, 2}, with_sizes({0, 4, 2}), 6, {0, 4, 2});
  check_against_one_device({3, 1}, with_sizes({0, 4}), 4, {0, 4});
  check_against_one_device({0, 1}, with_sizes({4, 0}), 4, {4, 0});
  check_against_one_device({0, 1, 2}, with_weights({2, 1, 1}), 13, {7, 3, 3});
  check_against_one_device({1, 0}, with_weights({0, 1}), 3, {0, 3});
  check_against_one_device({0, 1, 2, 3}, {}, 9, {3, 3, 3, 0});
}

TEST_CASE("chunks that do not fit are refused with both sums") {
  Net module = seeded_on<Net>(Device(0));
  DataParallel parallel(module, {0, 1, 2}, with_sizes({6, 4, 2}));
  CHECK_THROWS_WITH(parallel(numbers({13, 6})),
                    "scatter: chunk_sizes [6, 4, 2] sum to 12, but input[0] has 13 rows along dimension 0");
  CHECK_THROWS_WITH(DataParallel(module, {0, 1}, with_sizes({6, 4, 2})),
                    "chunk_sizes has 3 entries for 2 devices (cuda:0, cuda:1); give one for each");
  CHECK_THROWS_WITH(DataParallel(module, {0, 1}, with_weights({1})),
                    "weights has 1 entries for 2 devices (cuda:0, cuda:1); give one for each");
  CHECK_THROWS_WITH(DataParallel(module, {0, 1}, with_sizes({-1, 4})), "chunk_sizes [-1, 4]: none may be negative");
  DataParallelOptions both = with_sizes({1, 1});
  both.weights = {1, 1};
  CHECK_THROWS_WITH(DataParallel(module, {0, 1}, both),
                    "chunk_sizes and weights are two ways to say the same; give one of them");
}

namespace {

struct Scaled {
  Parameter scale{full({1}, 2, DType::f64, Device::host())};
  void visit(Visitor& member) { member("scale", scale); }
  Tensor operator()(const Tensor& rows, const Tensor& table) const { return matmul(rows, table) * scale; }
};

}  // namespace

TEST_CASE("unsplit gives every replica the whole tensor, and its gradients are summed") {
  Scaled module;
  to(module, Device(0));
  for (const Device home : {Device(0), Device(2)}) {
    DataParallel parallel(module, {0, 1, 2});
    const Tensor rows = numbers({7, 3}, 1), table = to(numbers({3, 2}, 2), home),
                 same = to(numbers({3, 2}, 2), Device(0));
    table.set_requires_grad();
    same.set_requires_grad();
    const Tensor output = parallel(rows, unsplit(table)), expected = module(to(rows, Device(0)), same);
    CHECK(parallel.piece_sizes() == Sizes{3, 3, 1});
    CHECK(largest_difference(values_of(output), values_of(expected)) < kTolerance);
    sum(square(output)).backward();
    sum(square(expected)).backward();
    CHECK(table.grad().device() == home);
    CHECK(largest_difference(values_of(table.grad()), values_of(same.grad())) < kTolerance);
  }
}

namespace {

struct Counter {
  Parameter one{full({1}, 1, DType::f64, Device::host())};
  void visit(Visitor& member) { member("one", one); }
  Tensor operator()() const { return one * 1.0; }
  Tensor operator()(double factor) const { return one * factor; }
};

}  // namespace

TEST_CASE("without arguments the primary runs once, with arguments that hold no tensor to split every device runs") {
  Counter module;
  to(module, Device(1));
  DataParallel parallel(module, {1, 0, 2});
  CHECK(values_of(parallel()) == std::vector<double>{1});
  CHECK(parallel().device() == Device(1));
  CHECK(values_of(parallel(3.0)) == std::vector<double>{3, 3, 3});
  CHECK(parallel.piece_sizes() == Sizes{0, 0, 0});
}

TEST_CASE("no rows give an output without rows and gradients of zero") {
  Net module = seeded_on<Net>(Device(0));
  for (const DataParallelOptions& options :
       {DataParallelOptions{}, with_weights({1, 2, 0, 1}), with_sizes({0, 0, 0, 0})}) {
    zero_grad(module);
    DataParallel parallel(module, {0, 1, 2, 3}, options);
    const Tensor output = parallel(numbers({0, 6}));
    CHECK(output.shape() == Shape{0, 4});
    sum(output).backward();
    CHECK(values_of(module.second.bias.grad()) == std::vector<double>(4, 0));
  }
}

TEST_CASE("a replica's number is a vector of one element where several devices are configured and one is used") {
  struct Mean {
    Parameter scale{full({1}, 2, DType::f64, Device::host())};
    void visit(Visitor& member) { member("scale", scale); }
    Tensor operator()(const Tensor& x) const { return mean(x * scale); }
  } module;
  to(module, Device(0));
  CHECK(DataParallel(module, {0, 1})(numbers({1, 2})).shape() == Shape{1});
  CHECK(DataParallel(module, {0, 1})(numbers({4, 2})).shape() == Shape{2});
  CHECK(DataParallel(module, {0})(numbers({4, 2})).shape() == Shape{});
}
