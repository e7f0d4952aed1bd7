// SPDX-License-Identifier: Apache-2.0
// Replicas: replicate() on its own, buffers with gradient, buffer policies, what a replica may not do.
#include <catch2/catch.hpp>

#include "runtime/autograd/grad.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/ops/reduce.h"
#include "runtime/ops/shape.h"
#include "runtime/parallel/data_parallel.h"
#include "runtime/tensor/copy.h"
#include "tests/runtime/parallel/test_nets.h"

using namespace fanout;
using namespace fanout::test;

namespace {
const std::vector<Device> kThree{Device(1), Device(0), Device(2)};
}

TEST_CASE("replicas have the module's parameters under its names, on their devices, in one graph with the module") {
  Net module = seeded_on<Net>(Device(1));
  std::vector<Net> replicas = replicate(module, kThree);
  const Tensor x = numbers({4, 6});
  Tensor loss;
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const std::vector<NamedTensor> of_replica = named_parameters(replicas[i]), of_module = named_parameters(module);
    REQUIRE(of_replica.size() == of_module.size());
    for (std::size_t k = 0; k < of_module.size(); ++k) {
      CHECK(of_replica[k].name == of_module[k].name);
      CHECK(of_replica[k].tensor.device() == kThree[i]);
      CHECK(of_replica[k].tensor.requires_grad());
      CHECK(values_of(of_replica[k].tensor) == values_of(of_module[k].tensor));
    }
    const Tensor part = to(sum(square(replicas[i](to(x, kThree[i])))), Device(1));
    loss = loss.defined() ? loss + part : part;
  }
  CHECK(replicas[0].first.weight.raw_data() == module.first.weight.raw_data());
  loss.backward();
  Net alone = clone(module);
  (sum(square(alone(to(x, Device(1))))) * 3.0).backward();
  CHECK(gradient_difference(alone, module) < kTolerance);
}

TEST_CASE("detached replicas, and those made without graph, pass no gradient") {
  Net module = seeded_on<Net>(Device(1));
  CHECK_FALSE(replicate(module, kThree, true)[1].first.weight.requires_grad());
  const NoGrad no_graph;
  CHECK_FALSE(replicate(module, kThree)[1].first.weight.requires_grad());
}

TEST_CASE("replicate refuses a module that is not on the first device, and repeated devices") {
  Net module = seeded_on<Net>(Device(0));
  CHECK_THROWS_AS(replicate(module, kThree), PlacementError);
  CHECK_THROWS_WITH(replicate(module, {Device(0), Device(0)}), Catch::StartsWith("device_ids lists 0 twice"));
  CHECK(replicate(module, {}).empty());
}

TEST_CASE("parallel_apply calls each module with its input, a tuple being a list of arguments") {
  Net module = seeded_on<Net>(Device(0));
  std::vector<Net> replicas = replicate(module, {Device(0), Device(1)});
  const std::vector<Tensor> inputs = scatter(numbers({5, 6}), {Device(0), Device(1)});
  const std::vector<std::tuple<Tensor>> tuples{{inputs[0]}, {inputs[1]}};
  const std::vector<Tensor> bare = parallel_apply(replicas, inputs),
                            listed = parallel_apply(replicas, tuples, {Device(0), Device(1)});
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(bare[i].device() == Device(static_cast<int>(i)));
    CHECK(values_of(bare[i]) == values_of(replicas[i](inputs[i])));
    CHECK(values_of(listed[i]) == values_of(bare[i]));
  }
  CHECK_THROWS_WITH(parallel_apply(replicas, std::vector<Tensor>{inputs[0]}),
                    "parallel_apply: 2 modules, 1 inputs, 0 devices; there must be one of each for every module "
                    "(devices may be left out)");
}

namespace {

struct Buffered {
  Parameter weight{full({3}, 2, DType::f64, Device::host())};
  Buffer plain{full({3}, 3, DType::f64, Device::host())};
  Buffer trained{full({3}, 5, DType::f64, Device::host())};
  Buffered() { trained.set_requires_grad(); }
  void visit(Visitor& member) {
    member("weight", weight);
    member("plain", plain);
    member("trained", trained);
  }
  Tensor operator()(const Tensor& x) const { return x * weight * trained + x * plain * trained; }
};

}  // namespace

TEST_CASE("a buffer that requires a gradient gets the sum over all replicas, a plain one none") {
  Buffered alone, wrapped;
  to(alone, Device(0));
  to(wrapped, Device(0));
  DataParallel parallel(wrapped, {0, 1, 2});
  const Tensor x = numbers({7, 3});
  for (int round = 0; round < 2; ++round) {
    sum(square(alone(to(x, Device(0))))).backward();
    sum(square(parallel(x))).backward();
    REQUIRE(wrapped.trained.grad().defined());
    CHECK(largest_difference(values_of(alone.trained.grad()), values_of(wrapped.trained.grad())) < 1e-10);
    CHECK(largest_difference(values_of(alone.weight.grad()), values_of(wrapped.weight.grad())) < 1e-10);
    CHECK_FALSE(wrapped.plain.grad().defined());
  }
}

namespace {

// Adds the mean of its rows to one buffer, their number to another, and overwrites a third.
struct Watching {
  Parameter weight{full({1}, 1, DType::f64, Device::host())};
  Buffer average{Shape{2}, DType::f64}, rows{Shape{}, DType::i64}, last{Shape{2}, DType::f64};
  void visit(Visitor& member) {
    member("weight", weight);
    member("stats.average", average);
    member("stats.rows", rows);
    member("last", last);
  }
  Tensor operator()(const Tensor& x) const {
    const NoGrad no_graph;
    copy(average, mean(x, 0));
    copy(last, mean(x, 0));
    copy(rows, to(from_vector<std::int64_t>({to_vector<std::int64_t>(rows)[0] + x.size(0)}, {}), x.device()));
    return x * weight;
  }
};

DataParallelOptions with_policies(std::map<std::string, BufferPolicy> policies) {
  DataParallelOptions options;
  options.buffer_policies = std::move(policies);
  return options;
}

}  // namespace

TEST_CASE("buffers hold the primary's value, the mean by rows or the sum of all changes, as each one's policy says") {
  Watching module;
  to(module, Device(0));
  DataParallel parallel(module, {0, 1, 2},
                        with_policies({{"average", BufferPolicy::mean}, {"stats.rows", BufferPolicy::sum}}));
  const Tensor x = from_vector<double>({1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60, 10, 100}, {7, 2});  // 3, 3, 1 rows
  for (int round = 1; round <= 2; ++round) {
    (void)parallel(x);
    CHECK(largest_difference(values_of(module.average), {31.0 / 7, 310.0 / 7}) < kTolerance);
    CHECK(to_vector<std::int64_t>(module.rows) == std::vector<std::int64_t>{7 * round});
    CHECK(values_of(module.last) == std::vector<double>{2, 20});
  }
}

TEST_CASE("a buffer policy for no buffer, or a mean of integers, is refused at construction") {
  Watching module;
  to(module, Device(0));
  CHECK_THROWS_WITH(DataParallel(module, {0, 1}, with_policies({{"verage", BufferPolicy::mean}})),
                    "buffer_policies: no buffer is named \"verage\"; the module has stats.average, stats.rows, last");
  CHECK_THROWS_WITH(DataParallel(module, {0, 1}, with_policies({{"rows", BufferPolicy::mean}})),
                    "buffer_policies: \"stats.rows\" has dtype i64; a mean needs f32 or f64, a sum i64 or these");
}

TEST_CASE("what a replica other than the primary writes to a buffer is gone at the next forward") {
  struct OwnWriter {
    Buffer value{full({1}, 7, DType::f64, Device::host())};
    void visit(Visitor& member) { member("value", value); }
    Tensor operator()(const Tensor& x) const {
      const Tensor read = x * 0.0 + value;
      if (x.device() == Device(1)) copy(value, full({1}, 9, DType::f64, Device(1)));
      return read;
    }
  } module;
  to(module, Device(0));
  DataParallel parallel(module, {0, 1});
  for (int round = 0; round < 2; ++round) CHECK(values_of(parallel(numbers({2}))) == std::vector<double>{7, 7});
}

TEST_CASE("zero_grad and backward inside a forward are refused, and the next forward works") {
  struct Impatient {
    Linear layer{6, 4, true, DType::f64};
    std::string* wish = nullptr;
    void visit(Visitor& member) { member("layer", layer); }
    Tensor operator()(const Tensor& x) {
      const Tensor y = layer(x);
      if (*wish == "zero_grad") zero_grad(*this);
      if (*wish == "backward") sum(y).backward();
      return y;
    }
  };
  for (const ParallelApply mode : {ParallelApply::inline_, ParallelApply::workers}) {
    std::string wish = "zero_grad";
    Impatient module = seeded_on<Impatient>(Device(0));
    module.wish = &wish;
    DataParallel parallel(module, {0, 1}, with_mode(mode));
    CHECK_THROWS_WITH(parallel(numbers({4, 6})),
                      Catch::Contains("zero_grad on a replica has no effect: its parameters belong to the module that "
                                      "was replicated; call zero_grad on that module"));
    wish = "backward";
    CHECK_THROWS_WITH(parallel(numbers({4, 6})),
                      Catch::Contains("backward inside the forward of a replica: the other replicas have not finished; "
                                      "call backward on the gathered output"));
    wish = "";
    sum(parallel(numbers({4, 6}))).backward();
    CHECK(values_of(module.layer.bias.grad()) == std::vector<double>{4, 4, 4, 4});
  }
}

TEST_CASE("a replica may take gradients inside its forward, as long as they end in it") {
  struct Penalised {
    Linear layer{6, 1, true, DType::f64};
    void visit(Visitor& member) { member("layer", layer); }
    Tensor operator()(const Tensor& x) const {
      const Tensor own = x.detach().set_requires_grad();
      return sum(square(grad(sum(layer(own)), {own}, {}, {.create_graph = true})[0]), 1);
    }
  };
  for (const ParallelApply mode : {ParallelApply::inline_, ParallelApply::workers}) {
    Penalised module = seeded_on<Penalised>(Device(0));
    DataParallel parallel(module, {0, 1, 2}, with_mode(mode));
    sum(parallel(numbers({7, 6}))).backward();  // 7 |w|², so 14 w
    std::vector<double> expected = values_of(module.layer.weight);
    for (double& value : expected) value *= 14;
    CHECK(largest_difference(values_of(module.layer.weight.grad()), expected) < 1e-11);
  }
}

TEST_CASE("all failures of a forward can be read, also those of types that cannot carry more text") {
  struct Odd : std::exception {
    const char* what() const noexcept override { return "odd"; }
  };
  struct Failing {
    Linear layer{6, 4, true, DType::f64};
    void visit(Visitor& member) { member("layer", layer); }
    Tensor operator()(const Tensor& x) const {
      if (x.device() == Device(1)) throw Odd();
      if (x.device() == Device(2)) throw 5;
      return layer(x);
    }
  };
  Failing module = seeded_on<Failing>(Device(0));
  DataParallel parallel(module, {0, 1, 2});
  CHECK_THROWS_AS(parallel(numbers({6, 6})), Odd);
  REQUIRE(parallel.failures().size() == 2);
  CHECK(parallel.failures()[0].text == "replica 1 on cuda:1 (input f64 [2, 6]): odd");
  CHECK(parallel.failures()[1].text ==
        "replica 2 on cuda:2 (input f64 [2, 6]): an exception that is no std::exception");
  CHECK(parallel(numbers({1, 6})).size(0) == 1);
  CHECK(parallel.failures().empty());
}
