// SPDX-License-Identifier: Apache-2.0
// What users met with gradients: lost, doubled, of frozen and unused parameters, different in every run.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "runtime/autograd/backward.h"
#include "runtime/device/context.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/optim/sgd.h"
#include "runtime/tensor/copy.h"
#include "tests/conformance/counted_bytes.h"
#include "tests/conformance/user_cases.h"

using namespace fanout;
using namespace fanout::test;
using Catch::Matchers::Contains;

namespace {

std::vector<std::vector<double>> weights_of(ModuleView module) {
  std::vector<std::vector<double>> weights;
  for (const Tensor& parameter : parameters(module)) weights.push_back(values_of(parameter));
  return weights;
}

}  // namespace

TEST_CASE("a step changes every parameter as on one device", "[case 34]") {
  Mlp alone = mlp(4, 8, 3, Device(0)), wrapped = mlp(4, 8, 3, Device(0));
  const std::vector<std::vector<double>> before = weights_of(wrapped);
  DataParallel parallel(wrapped, {0, 1});
  Sgd alone_sgd(parameters(alone), {.learning_rate = 0.1}), wrapped_sgd(parameters(wrapped), {.learning_rate = 0.1});
  const Tensor x = numbers({8, 4}), targets = to(labels(8, 3), Device(0));
  cross_entropy(alone(to(x, Device(0))), targets).backward();
  cross_entropy(parallel(x), targets).backward();
  alone_sgd.step();
  wrapped_sgd.step();
  const std::vector<std::vector<double>> expected = weights_of(alone), after = weights_of(wrapped);
  for (std::size_t i = 0; i < after.size(); ++i) {
    CHECK(after[i] != before[i]);
    CHECK(largest_difference(after[i], expected[i]) < kTolerance);
  }
}

TEST_CASE("the gradient of a mean or a sum over the gathered output is the same for 1, 2 and 4 devices", "[case 35]") {
  for (const bool use_mean : {true, false}) {
    Linear alone = ones_linear(2, 2, Device(0));
    const Tensor x = numbers({4, 2});
    const auto loss = [&](const Tensor& y) { return use_mean ? mean(y) : sum(y); };
    loss(alone(to(x, Device(0)))).backward();
    for (const std::vector<int>& ids : {std::vector<int>{0}, {0, 1}, {0, 1, 2, 3}}) {
      Linear module = ones_linear(2, 2, Device(0));
      DataParallel parallel(module, ids);
      loss(parallel(x)).backward();
      CHECK(gradient_difference(module, alone) < kTolerance);
      CHECK(largest_difference(values_of(module.bias.grad()), repeated(2, use_mean ? 0.5 : 4.0)) < kTolerance);
    }
  }
}

namespace {

// The second layer is used by pieces that contain the marked row, if any.
struct SecondLayerSometimes {
  Linear first{2, 2, true, DType::f64}, second{2, 2, true, DType::f64};
  double mark = -1;
  void visit(Visitor& member) {
    member("first", first);
    member("second", second);
  }
  Tensor operator()(const Tensor& x) const {
    const std::vector<double> values = values_of(x);
    const bool marked = std::find(values.begin(), values.end(), mark) != values.end();
    return marked ? second(first(x)) : first(x);
  }
};

}  // namespace

TEST_CASE("a parameter that nobody uses has no gradient and is not moved by decay and momentum", "[case 37]") {
  for (const std::vector<int>& ids : {std::vector<int>{0}, {0, 1}}) {
    SecondLayerSometimes module = seeded_on<SecondLayerSometimes>(Device(0));
    DataParallel parallel(module, ids);
    Sgd optimizer(parameters(module), {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1});
    const std::vector<double> first = values_of(module.first.weight), second = values_of(module.second.weight);
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      sum(parallel(numbered_rows(4, 2))).backward();
      CHECK_FALSE(module.second.weight.grad().defined());
      optimizer.step();
    }
    CHECK(values_of(module.second.weight) == second);
    CHECK(values_of(module.first.weight) != first);
  }
}

TEST_CASE("a parameter that one replica uses has that replica's gradient", "[case 37]") {
  SecondLayerSometimes module = seeded_on<SecondLayerSometimes>(Device(0));
  DataParallel parallel(module, {0, 1});
  module.mark = 1;  // row 1, so replica 0
  const Tensor x = numbered_rows(4, 2), here = to(x, Device(0));
  sum(parallel(x)).backward();
  SecondLayerSometimes alone = clone(module);
  (sum(alone(narrow(here, 0, 0, 2))) + sum(alone(narrow(here, 0, 2, 2)))).backward();
  REQUIRE(module.second.weight.grad().defined());
  CHECK(values_of(module.second.bias.grad()) == std::vector<double>{2, 2});
  CHECK(gradient_difference(module, alone) < kTolerance);
}

TEST_CASE("frozen parameters get no gradient and are not reduced, and unfreezing holds from the next step",
          "[case 38]") {
  Mlp module = mlp(64, 4096, 3, Device(0)), alone = mlp(64, 4096, 3, Device(0));
  for (Mlp* each : {&module, &alone}) {
    each->fc1.weight.set_requires_grad(false);
    each->fc1.bias.set_requires_grad(false);
  }
  DataParallel parallel(module, {0, 1, 2, 3});
  const Tensor x = numbers({8, 64});
  const auto step = [&] {
    zero_grad(module);
    zero_grad(alone);
    counted_bytes().reset();
    sum(square(parallel(x))).backward();
    sum(square(alone(to(x, Device(0))))).backward();
    CHECK(gradient_difference(module, alone) < 1e-10);
    return counted_bytes().reduced / 3;  // bytes of one replica
  };
  const std::size_t of_fc2 = module.fc2.weight.bytes() + module.fc2.bias.bytes();
  for (int i = 0; i < 3; ++i) {
    const std::size_t reduced = step();
    CHECK(reduced >= of_fc2);
    CHECK(reduced < of_fc2 + 2 * FlatLayout::kAlignmentBytes);
    CHECK_FALSE(module.fc1.weight.grad().defined());
  }
  for (Mlp* each : {&module, &alone}) {
    each->fc1.weight.set_requires_grad();
    each->fc1.bias.set_requires_grad();
  }
  CHECK(step() >= of_fc2 + module.fc1.weight.bytes() + module.fc1.bias.bytes());
  CHECK(module.fc1.weight.grad().defined());
  for (const Tensor& parameter : parameters(module)) parameter.set_requires_grad(false);
  const Tensor loss = sum(parallel(x));
  CHECK_THROWS_WITH(loss.backward(), Contains("depends on no tensor that requires a gradient"));
}

TEST_CASE("gradients add up over backwards and start anew after zero_grad", "[case 40]") {
  Linear module = ones_linear(3, 2, Device(0));
  DataParallel parallel(module, {0, 1, 2, 3});
  for (const double expected : {36.0, 72.0, 36.0}) {
    if (expected == 36) zero_grad(module);
    sum(parallel(numbered_rows(9, 3))).backward();
    CHECK(values_of(module.weight.grad()) == repeated(6, expected));
  }
}

namespace {

struct Meddling {
  enum class Deed { none, zero_grad, backward };
  Linear layer{3, 2, true, DType::f64};
  Deed deed = Deed::none;
  void visit(Visitor& member) { member("layer", layer); }
  Tensor operator()(const Tensor& x) const {
    const Tensor y = layer(x);
    if (deed == Deed::zero_grad) zero_grad(*this);
    if (deed == Deed::backward) sum(y).backward();
    return y;
  }
};

}  // namespace

TEST_CASE("zero_grad and backward inside the forward of a replica are refused, and the next step is right",
          "[case 40]") {
  for (const ParallelApply mode : all_modes()) {
    Meddling module = seeded_on<Meddling>(Device(0));
    DataParallel parallel(module, {0, 1}, with_mode(mode));
    module.deed = Meddling::Deed::zero_grad;
    CHECK_THROWS_WITH(parallel(numbers({4, 3})),
                      Contains("zero_grad on a replica has no effect: its parameters belong to the module that was "
                               "replicated; call zero_grad on that module"));
    module.deed = Meddling::Deed::backward;
    CHECK_THROWS_WITH(parallel(numbers({4, 3})),
                      Contains("backward inside the forward of a replica: the other replicas have not finished; call "
                               "backward on the gathered output"));
    module.deed = Meddling::Deed::none;
    zero_grad(module);
    sum(parallel(numbers({4, 3}))).backward();
    CHECK(values_of(module.layer.bias.grad()) == repeated(2, 4));
  }
}

namespace {

// An Mlp whose replicas are late by chance.
struct Sleepy {
  Mlp net = Mlp(6, 16, 4);
  bool sleeps = false;
  void visit(Visitor& member) { member("net", net); }
  Tensor operator()(const Tensor& x) const {
    thread_local std::mt19937 engine{std::random_device{}()};
    if (sleeps) std::this_thread::sleep_for(std::chrono::microseconds(engine() % 200));
    return net(x);
  }
};

// All weights after 20 steps, bit by bit.
std::vector<std::vector<double>> trained(const std::vector<int>& ids, ParallelApply mode, bool sleeps) {
  Sleepy module = seeded_on<Sleepy>(Device(ids[0]));
  module.sleeps = sleeps;
  DataParallel parallel(module, ids, with_mode(mode));
  Sgd optimizer(parameters(module), {.learning_rate = 0.1, .momentum = 0.9});
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    cross_entropy(parallel(numbers({10, 6}, step + 1)), to(labels(10, 4), Device(ids[0]))).backward();
    optimizer.step();
  }
  return weights_of(module);
}

}  // namespace

TEST_CASE("a seeded run on 4 devices ends in the same bits every time, in every mode, however late a replica is",
          "[case 41]") {
  const auto first = trained({0, 1, 2, 3}, ParallelApply::inline_, false);
  for (const ParallelApply mode : all_modes()) {
    for (int run = 0; run < 10; ++run) CHECK(trained({0, 1, 2, 3}, mode, run % 2 == 1) == first);
  }
  const auto alone = trained({0}, ParallelApply::inline_, false);
  for (std::size_t i = 0; i < first.size(); ++i) CHECK(largest_difference(first[i], alone[i]) < 1e-6);
}

TEST_CASE("a step is seen whole by the forward right behind it, also with parameters of several MiB", "[case 43]") {
  const auto losses = [](bool waits) {
    manual_seed(11);
    Linear module(1024, 1024);
    to(module, Device(0));
    DataParallel parallel(module, {0, 1, 2, 3});
    Sgd optimizer(parameters(module), {.learning_rate = 1, .momentum = 0.9});
    const std::vector<float> values(8 * 1024, 0.125F);
    const Tensor x = from_vector(values, {8, 1024});
    const auto wait = [&] {
      if (!waits) return;
      for (const Device device : parallel.devices()) synchronize(device);
    };
    std::vector<double> all;
    for (int step = 0; step < 30; ++step) {
      const Tensor loss = mean(square(parallel(x)));
      wait();
      optimizer.zero_grad();
      loss.backward();
      wait();
      optimizer.step();
      wait();
      all.push_back(item(loss));
    }
    return all;
  };
  const std::vector<double> synchronous = losses(true);
  CHECK(losses(false) == synchronous);
  CHECK(synchronous.back() < 0.5 * synchronous.front());
}

TEST_CASE("memory that is freed while another device still reads it is not written by the next owner", "[case 43]") {
  for (int round = 0; round < 50; ++round) {
    const Tensor copy = copied_to(full({1 << 14}, round, DType::f64, Device(0)), Device(1));
    const Tensor next = full({1 << 14}, -1, DType::f64, Device(0));
    REQUIRE(to_vector<double>(copy) == repeated(1 << 14, round));
  }
}
