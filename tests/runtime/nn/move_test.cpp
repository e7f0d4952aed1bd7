// SPDX-License-Identifier: Apache-2.0
// Moving modules: flat buffers, handles and ties that survive, what is refused.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "runtime/ops/reduce.h"
#include "runtime/tensor/flat.h"
#include "tests/runtime/nn/example_modules.h"

using namespace fanout;
using namespace fanout::testing;
using Catch::Matchers::Contains;

TEST_CASE("to keeps handles and values") {
  Residual module;
  const std::vector<Tensor> before = parameters(module);
  const std::vector<float> weight = to_vector<float>(module.up.weight);
  to(module, Device(2));
  CHECK(before[0].device() == Device(2));
  CHECK(to_vector<float>(before[0]) == weight);
  to(module, Device::host());
  CHECK(before[0].device() == Device::host());
  CHECK(to_vector<float>(before[0]) == weight);
}

TEST_CASE("to lays parameters out in one buffer, the last one first, gradients likewise and gaps zero") {
  struct Odd {
    Linear a{3, 5}, b{7, 2};
    BatchNorm1d norm{3};
    void visit(Visitor& member) {
      member("a", a);
      member("b", b);
      member("norm", norm);
    }
  } module;
  to(module, Device(1));
  const std::vector<Tensor> trained = parameters(module);
  const FlatLayout layout(trained);
  REQUIRE(layout.holds(trained));
  CHECK(layout.offset(trained.size() - 1) == 0);
  CHECK(FlatLayout(buffers(module)).holds(buffers(module)));
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : trained) gradients.push_back(gradient_sink(parameter).place());
  CHECK(layout.holds(gradients));

  for (Tensor last : {trained.back(), gradients.back()}) {
    const auto floats = static_cast<std::int64_t>(layout.bytes() / sizeof(float));
    std::vector<float> all = to_vector<float>(strided_view(last, {floats}, {1}, 0));
    for (std::size_t i = 0; i < trained.size(); ++i) {
      const std::size_t end = layout.offset(i) + trained[i].bytes();
      for (std::size_t at = end / 4; at < layout.end(i) / 4; ++at) CHECK(all[at] == 0);
    }
  }
}

TEST_CASE("backward writes gradients into the flat buffer") {
  Residual module;
  to(module, Device(0));
  const Tensor x = rows(4, 8, Device(0));
  mse_loss(module(x), x).backward();
  for (const Tensor& parameter : parameters(module)) {
    REQUIRE(parameter.grad().defined());
    CHECK(parameter.grad().raw_data() == gradient_sink(parameter).place().raw_data());
  }
}

TEST_CASE("to forgets gradients and counts a write, but does nothing where the module is already") {
  Residual module;
  to(module, Device(0));
  const Tensor x = rows(4, 8, Device(0));
  mse_loss(module(x), x).backward();
  const void* address = module.up.weight.raw_data();
  const std::uint32_t version = module.up.weight.version();

  to(module, Device(0));
  CHECK(module.up.weight.raw_data() == address);
  CHECK(module.up.weight.version() == version);
  CHECK(module.up.weight.grad().defined());

  to(module, Device(1));
  CHECK_FALSE(module.up.weight.grad().defined());
  CHECK(module.up.weight.version() > version);
}

TEST_CASE("a tie survives a move, and its gradient is the sum over both uses") {
  Tied module;
  const Tensor labels = from_vector<std::int64_t>({0, 1, 2, 3}, {4});
  to(module, Device(0));
  CHECK(module.in.weight.handle() == module.out.weight.handle());

  Tied separate = module;  // the same values in two weights
  separate.out.weight = Parameter(static_cast<const Tensor&>(module.in.weight));
  separate = clone(separate);
  const Tensor x = rows(4, 8, Device(0)), on_device = copied_to(labels, Device(0));
  cross_entropy(module(x), on_device).backward();
  cross_entropy(separate(x), on_device).backward();
  const auto tied = to_vector<float>(module.in.weight.grad()), first = to_vector<float>(separate.in.weight.grad()),
             second = to_vector<float>(separate.out.weight.grad());
  for (std::size_t i = 0; i < tied.size(); ++i) CHECK(tied[i] == Approx(first[i] + second[i]).margin(1e-7));
}

TEST_CASE("a part of a flat module is already in place") {
  Residual module;
  to(module, Device(0));
  const void* address = module.up.weight.raw_data();
  to(module.up, Device(0));
  CHECK(module.up.weight.raw_data() == address);
}

TEST_CASE("a module with parameters on several devices is brought together") {
  Residual module;
  to(module.up, Device(1));
  to(module.down, Device(2));
  to(module, Device(0));
  CHECK(FlatLayout(parameters(module)).holds(parameters(module)));
  CHECK(module.down.weight.device() == Device(0));
}

TEST_CASE("a module without tensors, and one with buffers only, can be moved") {
  Relu relu_module;
  to(relu_module, Device(0));
  struct Seen {
    Buffer count{from_vector<std::int64_t>({5}, {1})};
    void visit(Visitor& member) { member("count", count); }
  } seen;
  to(seen, Device(0));
  CHECK(to_vector<std::int64_t>(seen.count) == std::vector<std::int64_t>{5});
  CHECK(seen.count.device() == Device(0));
}

TEST_CASE("a clone of a module on a device is flat too") {
  Residual module;
  to(module, Device(0));
  const Residual copy = clone(module);
  CHECK(FlatLayout(parameters(copy)).holds(parameters(copy)));
  CHECK(to_vector<float>(copy.down.weight) == to_vector<float>(module.down.weight));
}

TEST_CASE("to refuses a device that does not exist and leaves the module as it was") {
  Linear layer(2, 2);
  CHECK_THROWS_AS(to(layer, Device(99)), InvalidArgument);
  CHECK(layer.weight.device() == Device::host());
}

TEST_CASE("a forgotten member is named: by to for an aggregate, at the first forward, at backward") {
  Forgetful aggregate;
  CHECK_THAT(thrown_text([&] { to(aggregate, Device(0)); }),
             Contains("Forgetful") && Contains("leaves out member 2 (fanout::Linear)"));

  ForgetfulClass module;
  to(module, Device(0));
  const Tensor x = rows(4, 8, Device(0));
  CHECK_THAT(thrown_text([&] { (void)module(x); }), Contains("cpu") && Contains("visit"));

  ForgetfulClass made_on_device;
  made_on_device.b.weight = Parameter(copied_to(made_on_device.b.weight, Device(0)));
  made_on_device.b.bias = Parameter(copied_to(made_on_device.b.bias, Device(0)));
  to(made_on_device, Device(0));
  CHECK_THAT(thrown_text([&] { mse_loss(made_on_device(x), x).backward(); }), Contains("no visit names"));
}

TEST_CASE("backward through a graph from before a move is refused, and the next step works") {
  Residual module;
  eval(module);
  to(module, Device(0));
  const Tensor loss = sum(module(full({2, 8}, 1, DType::f32, Device(0))));
  to(module, Device(1));
  CHECK_THROWS_WITH(loss.backward(),
                    Contains("a graph that was built on cuda:0") && Contains("has moved to cuda:1 since"));
  CHECK_FALSE(module.up.weight.grad().defined());
  sum(module(full({2, 8}, 1, DType::f32, Device(1)))).backward();
  CHECK(module.up.weight.grad().device() == Device(1));
}
