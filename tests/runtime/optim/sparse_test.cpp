// SPDX-License-Identifier: Apache-2.0
// Optimizers and sparse gradients.
#include <catch2/catch.hpp>

#include "runtime/autograd/sparse.h"
#include "runtime/nn/embedding.h"
#include "runtime/nn/linear.h"
#include "runtime/nn/move.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/ops/reduce.h"
#include "runtime/optim/adam.h"
#include "runtime/optim/sgd.h"
#include "runtime/tensor/copy.h"

using namespace fanout;
using Catch::Matchers::Contains;

namespace {

using Values = std::vector<double>;

struct Net {
  Linear before{2, 2, false, DType::f64};
  Embedding table;
  Linear after{2, 1, true, DType::f64};
  explicit Net(bool sparse) : table(6, 2, {.sparse = sparse, .dtype = DType::f64}) {}
  void visit(Visitor& member) {
    member("before", before);
    member("table", table);
    member("after", after);
  }
  Tensor operator()(const Tensor& numbers) { return after(before(table(numbers))); }
};

Tensor on_device(const std::vector<std::int64_t>& numbers) {
  return copied_to(from_vector(numbers, {static_cast<std::int64_t>(numbers.size())}), Device(0));
}

}  // namespace

TEST_CASE("Sgd takes a sparse gradient row by row and leaves the other rows alone") {
  Embedding table(4, 2, {.sparse = true, .dtype = DType::f64});
  copy(table.weight, from_vector<double>({0, 1, 2, 3, 4, 5, 6, 7}, {4, 2}));
  to(table, Device(0));
  Sgd optimizer(parameters(table), {.learning_rate = 0.25});
  const std::uint32_t version = table.weight.version();
  sum(table(on_device({3, 1, 3}))).backward();
  optimizer.step();
  CHECK(to_vector<double>(table.weight) == Values{0, 1, 1.75, 2.75, 4, 5, 5.5, 6.5});
  CHECK(table.weight.version() == version + 1);
  optimizer.zero_grad();
  optimizer.step();
  CHECK(table.weight.version() == version + 1);
  sum(table(on_device({0}))).backward();
  sum(table(on_device({0}))).backward();
  optimizer.set_learning_rate(0.5);
  optimizer.step();
  CHECK(to_vector<double>(table.weight) == Values{-1, 0, 1.75, 2.75, 4, 5, 5.5, 6.5});
}

TEST_CASE("training with sparse gradients ends where training with dense ones does") {
  Net dense(false), sparse(true);
  for (std::size_t i = 0; i < parameters(dense).size(); ++i) copy(parameters(sparse)[i], parameters(dense)[i]);
  to(dense, Device(0));
  to(sparse, Device(0));
  Sgd for_dense(parameters(dense), {.learning_rate = 0.1}), for_sparse(parameters(sparse), {.learning_rate = 0.1});
  for (int step = 0; step < 5; ++step) {
    const Tensor numbers = on_device({step % 6, 2, 2, 5});
    for_dense.zero_grad();
    for_sparse.zero_grad();
    sum(dense(numbers)).backward();
    sum(sparse(numbers)).backward();
    REQUIRE(sparse_grad(sparse.table.weight).has_value());
    for_dense.step();
    for_sparse.step();
  }
  for (std::size_t i = 0; i < parameters(dense).size(); ++i) {
    const Values expected = to_vector<double>(parameters(dense)[i]), found = to_vector<double>(parameters(sparse)[i]);
    for (std::size_t j = 0; j < expected.size(); ++j) CHECK(found[j] == Approx(expected[j]).epsilon(1e-13));
  }
}

TEST_CASE("optimizers that would change every row refuse a sparse gradient before they change anything") {
  Net net(true);
  to(net, Device(0));
  sum(net(on_device({1, 2}))).backward();
  const std::vector<Tensor> list = parameters(net);
  Values before;
  for (const Tensor& parameter : list) before.push_back(to_vector<double>(parameter)[0]);
  const auto refuses = [&](Optimizer&& optimizer, const std::string& name) {
    CHECK_THROWS_AS(optimizer.step(), InvalidArgument);
    CHECK_THROWS_WITH(optimizer.step(),
                      name +
                          ": parameter 1, f64 [6, 2] on cuda:0, has a sparse gradient, which only Sgd without "
                          "momentum and weight decay takes; an Embedding without sparse has a dense one");
  };
  refuses(Sgd(list, {.momentum = 0.9}), "Sgd");
  refuses(Sgd(list, {.weight_decay = 0.1}), "Sgd");
  refuses(Adam(list), "Adam");
  refuses(AdamW(list), "AdamW");
  for (std::size_t i = 0; i < list.size(); ++i) CHECK(to_vector<double>(list[i])[0] == before[i]);
}

TEST_CASE("a sparse gradient that became dense suits every optimizer") {
  Net net(true);
  to(net, Device(0));
  sum(net(on_device({1, 2})) + sum(net.table.weight)).backward();
  CHECK_FALSE(sparse_grad(net.table.weight).has_value());
  CHECK_NOTHROW(Adam(parameters(net)).step());
}
