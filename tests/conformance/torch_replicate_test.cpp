// SPDX-License-Identifier: Apache-2.0
// What torch's own tests ask of replicate and parallel_apply on their own.
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "runtime/autograd/backward.h"
#include "runtime/autograd/grad.h"
#include "runtime/nn/state_dict.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/ops/reduce.h"
#include "runtime/ops/shape.h"
#include "runtime/parallel/data_parallel.h"
#include "tests/conformance/comparison.h"

using namespace fanout;
using namespace fanout::test;

namespace {

template <class T>
Linear linear_on(Device device, unsigned seed) {
  manual_seed(seed);
  Linear layer(10, 5, true, kDTypeOf<T>);
  to(layer, device);
  return layer;
}

}  // namespace

TEMPLATE_TEST_CASE("parallel_apply gives what direct calls give, for argument lists and for bare tensors",
                   "[torch 9.1.4 test_parallel_apply]", float, double) {
  std::vector<Linear> layers{linear_on<TestType>(Device(0), 1), linear_on<TestType>(Device(1), 2)};
  const Tensor first = numbers_of<TestType>({2, 10}, Device(0), 1),
               second = numbers_of<TestType>({2, 10}, Device(1), 2);
  const std::vector<Tensor> expected{layers[0](first), layers[1](second)};
  const std::vector<Device> devices{Device(0), Device(1)};
  const auto check = [&](const std::vector<Tensor>& outputs) {
    REQUIRE(outputs.size() == 2);
    for (std::size_t index = 0; index < 2; ++index) {
      CHECK(difference(outputs[index], expected[index]) == 0);
      CHECK(outputs[index].device() == devices[index]);
    }
  };
  check(parallel_apply(layers, std::vector<Tensor>{first, second}));
  check(parallel_apply(layers, std::vector<std::tuple<Tensor>>{{first}, {second}}));
  check(parallel_apply(layers, std::vector<Tensor>{first, second}, devices));
}

TEST_CASE("an exception from parallel_apply keeps its type and names replica and device, also without any input",
          "[torch 9.1.6 test_parallel_apply_passes_exception]") {
  struct Throwing {
    void visit(Visitor&) {}
    Tensor operator()(const std::optional<Tensor>&) const { throw std::out_of_range("wonderful"); }
  };
  std::vector<Throwing> modules(2);
  const std::vector<std::optional<Tensor>> nothing(2);
  CHECK_THROWS_AS(parallel_apply(modules, nothing), std::out_of_range);
  CHECK_THROWS_WITH(parallel_apply(modules, nothing), "replica 0 on cuda:0: wonderful (replica 1 failed too)");
  const DeviceGuard current((Device(3)));
  CHECK_THROWS_WITH(parallel_apply(modules, nothing), "replica 0 on cuda:3: wonderful (replica 1 failed too)");
}

TEMPLATE_TEST_CASE("each replica is on its device and gives the original's output", "[torch 9.1.25 test_replicate]",
                   float, double) {
  Linear module = linear_on<TestType>(Device(0), 1);
  const Tensor x = numbers_of<TestType>({2, 10}, Device(0)), expected = module(x);
  for (const bool detach : {false, true}) {
    std::vector<Linear> replicas = replicate(module, devices_of({0, 1}), detach);
    REQUIRE(replicas.size() == 2);
    for (int index = 0; index < 2; ++index) {
      Linear& replica = replicas[static_cast<std::size_t>(index)];
      REQUIRE(parameters(replica).size() == 2);
      for (const Tensor& parameter : parameters(replica)) CHECK(parameter.device() == Device(index));
      CHECK(difference(to(replica(to(x, Device(index))), Device(0)), expected) < kRounding<TestType>);
    }
  }
}

TEST_CASE("the buffers of a module inside a plain struct are on each replica's device",
          "[torch 9.1.26 test_replicate_buffers]") {
  struct Plain {
    BatchNorm1d norm{10};
    void visit(Visitor& member) { member("norm", norm); }
  };
  Plain module = seeded_on<Plain>(Device(0));
  const std::vector<Plain> replicas = replicate(module, devices_of({0, 1}));
  REQUIRE(replicas.size() == 2);
  for (int index = 0; index < 2; ++index) {
    const BatchNorm1d& norm = replicas[static_cast<std::size_t>(index)].norm;
    CHECK(norm.running_mean.device() == Device(index));
    CHECK(norm.running_var.device() == Device(index));
    CHECK(norm.num_batches_tracked.device() == Device(index));
    CHECK(elements_of(norm.running_var) == std::vector<double>(10, 1.0));
  }
}

TEST_CASE("the state of a replica is the module's, detached or not", "[torch 9.1.29 test_save_replica_module]") {
  Net module = seeded_on<Net>(Device(0));
  const StateDict expected = state_dict(module);
  for (const bool detach : {false, true}) {
    const std::vector<Net> replicas = replicate(module, devices_of({0, 1}), detach);
    for (const Net& replica : replicas) {
      const StateDict state = state_dict(replica);
      REQUIRE(state.size() == expected.size());
      for (std::size_t index = 0; index < state.size(); ++index) {
        CHECK(state[index].name == expected[index].name);
        CHECK(values_of(state[index].tensor) == values_of(expected[index].tensor));
        CHECK_FALSE(state[index].tensor.requires_grad());
      }
      Net loaded = seeded_on<Net>(Device(3));
      load_state_dict(loaded, state);
      CHECK(values_of(loaded.second.weight) == values_of(module.second.weight));
    }
  }
}

TEST_CASE("parameters in vectors, arrays and maps are in the replicas as results whose gradients reach the original",
          "[torch 9.1.31 test_parameter_list_dict_replica]") {
  struct Listed {
    std::vector<Parameter> list;
    std::array<Parameter, 2> pair{Parameter(numbers({4}, 3)), Parameter(numbers({4}, 4))};
    std::map<std::string, Parameter> by_name;
    Listed() {
      list.emplace_back(numbers({4}, 1));
      list.emplace_back(numbers({4}, 2));
      by_name.emplace("scale", Parameter(numbers({4}, 5)));
      by_name.emplace("shift", Parameter(numbers({4}, 6)));
    }
    void visit(Visitor& member) {
      member("list", list);
      member("pair", pair);
      for (auto& [name, parameter] : by_name) member(name, parameter);
    }
  };
  Listed module = seeded_on<Listed>(Device(0));
  std::vector<Listed> replicas = replicate(module, devices_of({0, 1}));
  Tensor total = zeros({}, DType::f64, Device(0));
  for (Listed& replica : replicas) {
    const std::vector<NamedTensor> expected = named_parameters(module), actual = named_parameters(replica);
    REQUIRE(actual.size() == 6);
    for (std::size_t index = 0; index < actual.size(); ++index) {
      const Tensor& entry = actual[index].tensor;
      CHECK(actual[index].name == expected[index].name);
      CHECK(values_of(entry) == values_of(expected[index].tensor));
      CHECK(entry.requires_grad());
      CHECK(entry.body().producer);
      total = total + to(sum(entry), Device(0)) * static_cast<double>(index + 1);
    }
    CHECK(replica.by_name.at("scale").device() == replica.list[0].device());
  }
  total.backward();
  const std::vector<Tensor> originals = parameters(module);
  for (std::size_t index = 0; index < originals.size(); ++index) {
    CHECK(values_of(originals[index].grad()) == std::vector<double>(4, 2.0 * static_cast<double>(index + 1)));
  }
  for (const Listed& replica : replicate(module, devices_of({0, 1}), true)) {
    for (const Tensor& entry : parameters(replica)) CHECK_FALSE(entry.body().producer);
  }
}

TEST_CASE(
    "scatter, replicate, parallel_apply and gather one after another are a DataParallel, to the second derivative") {
  Net alone = seeded_on<Net>(Device(2)), module = clone(alone);
  const std::vector<Device> devices = devices_of({2, 0, 1});
  const auto by_hand = [&](const Tensor& x) {
    const std::vector<Tensor> pieces = scatter(x, devices);
    std::vector<Net> replicas = replicate(module, {devices.begin(), devices.begin() + std::ssize(pieces)});
    return gather(parallel_apply(replicas, pieces), devices[0]);
  };
  const auto penalty = [](const Tensor& output, const Tensor& x) {
    const Tensor gradient = grad(sum(square(output)), {x}, {}, {.create_graph = true})[0];
    return mean(square(to(gradient, output.device())));
  };
  for (const std::int64_t rows : {1, 2, 7}) {
    zero_grad(alone);
    zero_grad(module);
    const Tensor x = leaf_on(Device(2), numbers({rows, 6})), y = leaf_on(Device::host(), x);
    const Tensor expected = alone(x), output = by_hand(y);
    CHECK(difference(output, expected) < kTolerance);
    (mean(expected) + penalty(expected, x)).backward();
    (mean(output) + penalty(output, y)).backward();
    CHECK(gradient_difference(module, alone) < kTolerance);
    CHECK(largest_difference(values_of(y.grad()), values_of(x.grad())) < kTolerance);
  }
}

TEST_CASE("a plain member that forward assigns stays from the primary's replica, what a pointer leads to is shared") {
  struct Remembers {
    int rows = 0;
    std::shared_ptr<std::atomic<int>> all = std::make_shared<std::atomic<int>>(0);
    void visit(Visitor&) {}
    Tensor operator()(const Tensor& x) {
      rows = static_cast<int>(x.size(0));
      *all += rows;
      return x * 1.0;
    }
  } module;
  DataParallel parallel(module, {1, 0, 2});
  (void)parallel(numbers({8, 2}));  // 3, 3 and 2 rows
  CHECK(module.rows == 3);
  CHECK(*module.all == 8);
}
