// SPDX-License-Identifier: Apache-2.0
// What DataParallel refuses, what it reports, and that it works again afterwards.
#include <catch2/catch.hpp>
#include <stdexcept>

#include "runtime/autograd/backward.h"
#include "runtime/ops/reduce.h"
#include "runtime/ops/shape.h"
#include "runtime/parallel/data_parallel.h"
#include "tests/runtime/parallel/test_nets.h"

using namespace fanout;
using namespace fanout::test;
using Catch::Matchers::Contains;

TEST_CASE("an unsuitable input is refused before anything runs") {
  Net module = seeded_on<Net>(Device(0));
  DataParallel parallel(module, {0, 1});
  CHECK_THROWS_WITH(parallel(full({}, 1, DType::f64, Device::host())),
                    "scatter: input[0] has no dimension to split; pass a plain number, or unsplit(x)");
  CHECK_THROWS_WITH(parallel(Tensor()), "scatter: input[0] is undefined");
}

TEST_CASE("the lowest replica's failure is rethrown with its type, replica and device, and the next forward works") {
  struct Picky {
    Linear layer{6, 4, true, DType::f64};
    void visit(Visitor& member) { member("layer", layer); }
    Tensor operator()(const Tensor& x) const {
      if (x.device() != Device(2) && x.size(0) == 2) throw std::out_of_range("two rows are too few");
      return layer(x);
    }
  };
  for (const ParallelApply mode : {ParallelApply::inline_, ParallelApply::workers}) {
    REQUIRE(cudaSetDevice(3) == cudaSuccess);
    Picky module = seeded_on<Picky>(Device(2));
    DataParallel parallel(module, {2, 0, 1}, with_mode(mode));
    CHECK_THROWS_AS(parallel(numbers({6, 6})), std::out_of_range);
    CHECK_THROWS_WITH(parallel(numbers({6, 6})),
                      "replica 1 on cuda:0 (input f64 [2, 6]): two rows are too few (replica 2 failed too)");
    CHECK(parallel(numbers({9, 6})).size(0) == 9);
    int current = -1;
    REQUIRE(cudaGetDevice(&current) == cudaSuccess);
    CHECK(current == 3);
    const Tensor output = parallel(numbers({9, 6}));
    sum(output).backward();
    CHECK(module.layer.weight.grad().defined());
  }
}

TEST_CASE("a failure in a replica's backward reaches the caller, and the next step works") {
  struct Stubborn final : Node {
    using Node::Node;
    std::string_view name() const override { return "stubborn"; }
    void backward(BackwardPass&) override { throw std::runtime_error("no gradient today"); }
  };
  struct Refusing {
    Linear layer{6, 4, true, DType::f64};
    bool* refuse = nullptr;
    void visit(Visitor& member) { member("layer", layer); }
    Tensor operator()(const Tensor& x) const {
      const Tensor y = layer(x);
      if (!*refuse || x.device() != Device(1)) return y;
      const Tensor blocked = y.detach();
      record<Stubborn>(blocked, y);
      return blocked;
    }
  };
  for (const ParallelApply mode : {ParallelApply::inline_, ParallelApply::workers}) {
    bool refuse = true;
    Refusing module = seeded_on<Refusing>(Device(0));
    module.refuse = &refuse;
    DataParallel parallel(module, {0, 1}, with_mode(mode));
    const Tensor x = numbers({8, 6});
    const Tensor output = parallel(x);
    CHECK_THROWS_WITH(sum(output).backward(), "no gradient today");
    refuse = false;
    zero_grad(module);
    sum(parallel(x)).backward();
    CHECK(values_of(module.layer.bias.grad()) == std::vector<double>{8, 8, 8, 8});
  }
}

TEST_CASE("a graph outlives the DataParallel that made it") {
  Net module = seeded_on<Net>(Device(0)), alone = seeded_on<Net>(Device(0));
  const Tensor x = numbers({4, 6});
  Tensor loss;
  {
    DataParallel parallel(module, {0, 1});
    loss = sum(parallel(x));
  }
  loss.backward();
  sum(alone(to(x, Device(0)))).backward();
  CHECK(gradient_difference(module, alone) < kTolerance);
}

TEST_CASE("backward through a forward from before the module moved is refused, and the next step works") {
  Net module = seeded_on<Net>(Device(0));
  DataParallel parallel(module, {0, 1}, with_mode(ParallelApply::inline_));
  const Tensor x = numbers({4, 6});
  const Tensor loss = sum(parallel(x));
  to(module, Device(2));
  CHECK_THROWS_WITH(loss.backward(),
                    Contains("a graph that was built on cuda:0") && Contains("has moved to cuda:2 since"));
  to(module, Device(0));
  Net alone = clone(module);
  sum(parallel(x)).backward();
  sum(alone(to(x, Device(0)))).backward();
  CHECK(gradient_difference(module, alone) < kTolerance);
}
