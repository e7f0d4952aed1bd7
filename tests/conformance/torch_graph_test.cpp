// SPDX-License-Identifier: Apache-2.0
// What torch's own tests ask of gradients, grad mode and memory through DataParallel.
#include <catch2/catch.hpp>

#include "runtime/autograd/backward.h"
#include "runtime/autograd/grad.h"
#include "runtime/ops/activation.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/ops/reduce.h"
#include "runtime/ops/shape.h"
#include "runtime/optim/sgd.h"
#include "runtime/parallel/data_parallel.h"
#include "tests/conformance/comparison.h"

using namespace fanout;
using namespace fanout::test;
using Catch::Matchers::Contains;

namespace {

constexpr double kStep = 1e-5;
constexpr double kDifferenceError = 1e-8;  // of a central difference of a quadratic function

void write(const Tensor& target, const std::vector<double>& values) {
  const NoGrad no_graph;
  copy(target, from_vector(values, target.shape()));
}

}  // namespace

TEST_CASE("a buffer that requires a gradient gets its true derivative, summed over the replicas",
          "[torch 9.1.1 test_data_parallel_buffers_requiring_grad]") {
  struct Affine {
    Buffer scale{numbers({100}, 3)}, shift{numbers({100}, 3)};
    void visit(Visitor& member) {
      member("scale", scale);
      member("shift", shift);
    }
    Tensor operator()(const Tensor& x) const { return x * scale + shift; }
  };
  Affine module = seeded_on<Affine>(Device(0));
  module.scale.set_requires_grad();
  DataParallel parallel(module, {0, 1});
  const Tensor x = numbers_on(Device(0), {2, 100}), weights = numbers_on(Device(0), {2, 100}, 9);
  const auto objective = [&] { return sum(square(parallel(x)) * weights); };

  objective().backward();
  REQUIRE(module.scale.grad().defined());
  const std::vector<double> gradient = values_of(module.scale.grad()), values = values_of(module.scale);
  for (std::size_t element = 0; element < values.size(); ++element) {
    std::vector<double> moved = values;
    moved[element] = values[element] + kStep;
    write(module.scale, moved);
    const double above = item(objective());
    moved[element] = values[element] - kStep;
    write(module.scale, moved);
    const double below = item(objective());
    REQUIRE(std::abs((above - below) / (2 * kStep) - gradient[element]) < kDifferenceError);
  }
  CHECK_FALSE(module.shift.requires_grad());
}

TEST_CASE("a module whose parameters have no sizes yet is refused with the parameter's name and the way out",
          "[torch 9.1.3 test_data_parallel_lazy_linear]") {
  struct Unready {
    Linear layer;
    void visit(Visitor& member) { member("layer", layer); }
    Tensor operator()(const Tensor& x) const { return layer(x); }
  } module;
  const std::string text =
      "parameter \"layer.weight\" has no sizes: its module was made by default; give the sizes to the constructor";
  DataParallelOptions late;
  late.check_at_construction = false;
  CHECK_THROWS_WITH(DataParallel(module, {0, 1}), text);
  CHECK_THROWS_WITH(DataParallel(module, {0}), text);
  CHECK_THROWS_WITH(data_parallel(module, {0, 1}, late, numbers({2, 10})), text);
}

TEST_CASE("nothing keeps a forward's memory: what it held is free once its handles are gone",
          "[torch 9.1.10 test_data_parallel_model_no_refcycles]") {
  const Tensor x = numbers({8, 6});
  const auto used = [] {
    std::vector<std::uint64_t> bytes;
    for (int index = 0; index < device_count(); ++index) bytes.push_back(bytes_in_use(Device(index)));
    return bytes;
  };
  const auto run = [&](auto&& between_steps) {
    Net module = seeded_on<Net>(Device(0));
    DataParallel parallel(module);
    sum(parallel(x)).backward();
    const std::vector<std::uint64_t> warm = used();
    {
      const Tensor without_backward = parallel(x);
      CHECK(used() != warm);
    }
    CHECK(used() == warm);
    sum(parallel(x)).backward();
    CHECK(used() == warm);
    between_steps();
  };
  run([] {});
  const std::vector<std::uint64_t> before = used();
  run([] {});
  CHECK(used() == before);
}

TEST_CASE("replicas see the caller's grad mode, and what they throw about it reaches the caller with its type",
          "[torch 9.1.11 test_data_parallel_no_grad]") {
  struct GraphSeen : std::logic_error {
    using std::logic_error::logic_error;
  };
  struct Layer {
    void visit(Visitor&) {}
    Tensor operator()(const Tensor& x) const {
      if (grad_enabled()) throw GraphSeen("a graph is built");
      return x;
    }
  } module;
  const Tensor x = numbers_on(Device(0), {20, 10});
  for (const ParallelApply mode : {ParallelApply::inline_, ParallelApply::workers}) {
    {
      const NoGrad no_graph;
      CHECK(difference(data_parallel(module, {0, 1}, with_mode(mode), x), x) == 0);
    }
    CHECK_THROWS_AS(data_parallel(module, {0, 1}, with_mode(mode), x), GraphSeen);
  }
}

TEST_CASE("a gradient penalty differentiates twice through the replicas: each weight gets exactly a quarter",
          "[torch 9.1.18 test_data_parallel_function_deletion]") {
  Linear layer = [] {
    manual_seed(11);
    return Linear(4, 1, true, DType::f64);
  }();
  to(layer, Device(0));
  DataParallel parallel(layer, {0, 1});
  const Tensor x = leaf_on(Device(0), full({2, 4}, 1, DType::f64, Device::host()));
  const Tensor output = parallel(x);
  const std::vector<Tensor> gradients =
      grad(output, {x}, full(output.shape(), 1, DType::f64, Device(0)), {.create_graph = true});
  REQUIRE(gradients.size() == 1);
  mean(gradients[0]).backward();
  CHECK(values_of(layer.weight.grad()) == std::vector<double>{0.25, 0.25, 0.25, 0.25});
  // The penalty does not depend on the bias, so, as without replicas, it keeps no gradient.
  CHECK_FALSE(layer.bias.grad().defined());
}

TEST_CASE("zero_grad inside a replica's forward is refused, and the way out is named",
          "[torch 9.1.27 test_zero_grad]") {
  struct Clearing {
    Linear layer{6, 4, true, DType::f64};
    void visit(Visitor& member) { member("layer", layer); }
    Tensor operator()(const Tensor& x) {
      zero_grad(*this);
      return layer(x);
    }
  };
  const std::string text =
      "zero_grad on a replica has no effect: its parameters belong to the module that was replicated; call zero_grad "
      "on that module";
  for (const ParallelApply mode : {ParallelApply::inline_, ParallelApply::workers}) {
    Clearing module = seeded_on<Clearing>(Device(0));
    DataParallel parallel(module, {0, 1}, with_mode(mode));
    CHECK_THROWS_WITH(parallel(numbers({4, 6})), Contains(text));
    CHECK_NOTHROW(zero_grad(module));
  }
  Clearing module = seeded_on<Clearing>(Device(0));
  std::vector<Clearing> replicas = replicate(module, {Device(0), Device(1)});
  for (Clearing& replica : replicas) CHECK_THROWS_WITH(zero_grad(replica), text);
}

namespace {

// Four layers; the weights of the second and third are used and kept as transposed views.
struct Transposed {
  Linear first{6, 5, true, DType::f64};
  Parameter second{numbers({5, 7}, 2)};  // [in, out]
  Parameter third;                       // [5, 7] over memory that runs along the other dimension
  Linear fourth{5, 4, true, DType::f64};

  Transposed() {
    static_cast<Tensor&>(third) = transpose(copied_to(numbers({7, 5}, 4), Device::host()));
    third.set_requires_grad();
  }
  void visit(Visitor& member) {
    member("first", first);
    member("second", second);
    member("third", third);
    member("fourth", fourth);
  }
  Tensor operator()(const Tensor& x) const {
    const Tensor hidden = tanh(linear(tanh(first(x)), transpose(second)));  // [rows, 7]
    return fourth(tanh(linear(hidden, third)));
  }
};

}  // namespace

TEST_CASE("weights that are transposed views, and transposed inputs, give the plain gradients, without gaps, twice",
          "[torch 9.1.30 test_strided_grad_layout]") {
  const Transposed made;
  REQUIRE_FALSE(made.third.is_contiguous());
  Transposed alone = seeded_on<Transposed>(Device(0)), wrapped = seeded_on<Transposed>(Device(0));
  CHECK(values_of(wrapped.third) == values_of(transpose(numbers({7, 5}, 4))));
  DataParallel parallel(wrapped);
  Sgd alone_sgd(parameters(alone), {.learning_rate = 0.1}), wrapped_sgd(parameters(wrapped), {.learning_rate = 0.1});
  for (int iteration = 0; iteration < 2; ++iteration) {
    for (const bool strided : {false, true}) {
      const Tensor x =
          strided ? transpose(numbers_on(Device(0), {6, 16}, iteration)) : numbers_on(Device(0), {16, 6}, iteration);
      CHECK(x.is_contiguous() != strided);
      alone_sgd.zero_grad();
      wrapped_sgd.zero_grad();
      const Tensor expected = alone(x), output = parallel(x);
      CHECK(difference(output, expected) < kTolerance);
      mean(square(expected)).backward();
      mean(square(output)).backward();
      CHECK(gradient_difference(alone, wrapped) < kTolerance);
      for (const Tensor& parameter : parameters(wrapped)) {
        CHECK(parameter.is_contiguous());
        CHECK(parameter.grad().strides() == parameter.strides());
        CHECK(parameter.grad().dtype() == parameter.dtype());
      }
      alone_sgd.step();
      wrapped_sgd.step();
    }
  }
}
