// SPDX-License-Identifier: Apache-2.0
// Walking over members: order, names, sharing, modes, copies.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/runtime/nn/example_modules.h"

using namespace fanout;
using namespace fanout::testing;
using Catch::Matchers::Contains;
using Names = std::vector<std::string>;

static_assert(!std::is_assignable_v<Parameter&, Tensor>, "a result is not to be assigned to a parameter");
static_assert(!std::is_assignable_v<Buffer&, Tensor>);
static_assert(std::is_assignable_v<Parameter&, const Parameter&>, "but a parameter is: that ties the two");
static_assert(Module<Linear> && Module<Sequential> && Module<AnyLayer> && !Module<Tensor> && !Module<int>);

TEST_CASE("members are visited in the order and under the names of visit, nested ones with dots") {
  CHECK(names(named_parameters(Residual())) == Names{"up.weight", "up.bias", "down.weight", "down.bias"});
}

TEST_CASE("elements of vectors and arrays are numbered, an empty optional is left out") {
  Stack stack;
  CHECK(names(named_parameters(stack)) == Names{"layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias",
                                                "norms.0.weight", "norms.0.bias", "norms.1.weight", "norms.1.bias"});
  stack.head = Linear(8, 2, false);
  CHECK(named_parameters(stack).back().name == "head.weight");
}

TEST_CASE("a Sequential of any modules numbers its layers") {
  const Sequential net(Linear(8, 8), Relu(), Residual(), Sequential(Linear(8, 4)));
  CHECK(names(named_parameters(net)) == Names{"0.weight", "0.bias", "2.up.weight", "2.up.bias", "2.down.weight",
                                              "2.down.bias", "3.0.weight", "3.0.bias"});
}

TEST_CASE("a local class is a module, and a const module can be walked") {
  struct Local {
    Linear fc{8, 4};
    void visit(Visitor& member) { member("fc", fc); }
  };
  const Local module;
  CHECK(names(named_parameters(module)) == Names{"fc.weight", "fc.bias"});
}

TEST_CASE("parameters are leaves that require a gradient, buffers are not") {
  const BatchNorm1d norm(3);
  for (const Tensor& parameter : parameters(norm)) CHECK(parameter.requires_grad());
  for (const Tensor& buffer : buffers(norm)) CHECK_FALSE(buffer.requires_grad());
  CHECK(names(named_buffers(norm)) == Names{"running_mean", "running_var", "num_batches_tracked"});
  CHECK(to_vector<float>(norm.running_var) == std::vector<float>{1, 1, 1});
}

TEST_CASE("a parameter starts with a copy of the values it is given") {
  const Tensor values = from_vector<float>({1, 2}, {2});
  const Parameter parameter(values);
  values.data<float>()[0] = 7;
  CHECK(to_vector<float>(parameter) == std::vector<float>{1, 2});
  CHECK_FALSE(values.requires_grad());
  CHECK_THROWS_AS(Parameter(Shape{2}, DType::i64), InvalidArgument);
}

TEST_CASE("a tied parameter comes once, under its first name") {
  CHECK(names(named_parameters(Tied())) == Names{"in.weight", "in.bias", "out.bias"});
}

TEST_CASE("a copy of a module shares its tensors, a clone does not") {
  Residual module;
  const Residual copy = module;
  const Residual deep = clone(module);
  CHECK(copy.up.weight.handle() == module.up.weight.handle());
  CHECK_FALSE(deep.up.weight.handle() == module.up.weight.handle());
  CHECK(to_vector<float>(deep.up.weight) == to_vector<float>(module.up.weight));
  module.up.weight.data<float>()[0] = 42;
  CHECK(copy.up.weight.data<float>()[0] == 42);
  CHECK(deep.up.weight.data<float>()[0] != 42);
}

TEST_CASE("a clone keeps ties, modes, devices and frozen parameters, and has no gradients") {
  Tied module;
  module.in.bias.set_requires_grad(false);
  to(module, Device(1));
  cross_entropy(module(rows(4, 8, Device(1))), copied_to(from_vector<std::int64_t>({0, 1, 2, 3}, {4}), Device(1)))
      .backward();
  REQUIRE(module.in.weight.grad().defined());

  Tied copy = clone(module);
  CHECK(copy.in.weight.handle() == copy.out.weight.handle());
  CHECK_FALSE(copy.in.weight.handle() == module.in.weight.handle());
  CHECK(copy.in.weight.device() == Device(1));
  CHECK_FALSE(copy.in.weight.grad().defined());
  CHECK(module.in.weight.grad().defined());
  CHECK_FALSE(copy.in.bias.requires_grad());
  CHECK(to_vector<float>(copy.in.weight) == to_vector<float>(module.in.weight));

  Dropout dropout;
  eval(dropout);
  CHECK_FALSE(clone(dropout).mode.training);
}

TEST_CASE("train and eval reach every mode, also inside a Sequential") {
  Sequential net(Dropout{.p = 0.25f}, Sequential(BatchNorm1d(3)));
  const auto training = [&] {
    return std::pair(net[0].get_if<Dropout>()->mode.training,
                     (*net[1].get_if<Sequential>())[0].get_if<BatchNorm1d>()->mode.training);
  };
  CHECK(training() == std::pair(true, true));
  eval(net);
  CHECK(training() == std::pair(false, false));
  train(net);
  CHECK(training() == std::pair(true, true));
}

TEST_CASE("zero_grad forgets the gradients of a module") {
  Residual module;
  to(module, Device(0));
  const Tensor x = rows(4, 8, Device(0));
  mse_loss(module(x), x).backward();
  REQUIRE(module.up.weight.grad().defined());
  zero_grad(module);
  for (const Tensor& parameter : parameters(module)) CHECK_FALSE(parameter.grad().defined());
}

TEST_CASE("a parameter without sizes is an error that names its path") {
  struct Unset {
    std::vector<Linear> layers{Linear(2, 2), Linear()};
    void visit(Visitor& member) { member("layers", layers); }
  } module;
  CHECK_THAT(thrown_text([&] { (void)parameters(module); }),
             Contains("parameter \"layers.1.weight\" has no sizes") && Contains("constructor"));
  CHECK_THROWS_AS(to(module, Device(0)), InvalidArgument);
}
