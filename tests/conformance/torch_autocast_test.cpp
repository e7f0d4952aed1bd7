// SPDX-License-Identifier: Apache-2.0
// What torch's own tests ask of DataParallel in mixed precision, and that the replicas get the caller's type.
#include <catch2/catch.hpp>
#include <map>
#include <variant>

#include "runtime/autograd/autocast.h"
#include "runtime/autograd/backward.h"
#include "runtime/ops/reduce.h"
#include "runtime/ops/shape.h"
#include "runtime/parallel/data_parallel.h"
#include "tests/conformance/comparison.h"

using namespace fanout;
using namespace fanout::test;

namespace {

// Half of the distance between two bf16 numbers from 1 to 2.
constexpr double kBf16Rounding = 0x1p-8;

Linear linear_on(Device device, unsigned seed = 1, std::int64_t in = 10, std::int64_t out = 5) {
  manual_seed(seed);
  Linear layer(in, out);
  to(layer, device);
  return layer;
}

}  // namespace

TEST_CASE("parallel_apply under autocast gives what direct calls under autocast give",
          "[torch 9.1.5 test_parallel_apply_autocast]") {
  std::vector<Linear> layers{linear_on(Device(0), 1), linear_on(Device(1), 2)};
  const std::vector<Tensor> inputs{numbers_of<float>({2, 10}, Device(0), 1), numbers_of<float>({2, 10}, Device(1), 2)};
  const Autocast autocast(DType::bf16);
  const std::vector<Tensor> outputs = parallel_apply(layers, inputs);
  const std::vector<Tensor> of_lists =
      parallel_apply(layers, std::vector<std::tuple<Tensor>>{{inputs[0]}, {inputs[1]}});
  for (std::size_t index = 0; index < 2; ++index) {
    const Tensor expected = layers[index](inputs[index]);
    CHECK(expected.dtype() == DType::bf16);
    CHECK(difference(outputs[index], expected) == 0);
    CHECK(difference(of_lists[index], expected) == 0);
  }
}

TEST_CASE("a forward that switches autocast on itself gives bf16 for f32 input, on every replica",
          "[torch 9.1.28 test_autocast]") {
  struct Casting {
    Linear layer{8, 8};
    void visit(Visitor& member) { member("layer", layer); }
    Tensor operator()(const Tensor& x) const {
      const Autocast autocast(DType::bf16);
      return layer(x);
    }
  };
  Casting module = seeded_on<Casting>(Device(0));
  const Tensor x = numbers_of<float>({8, 8}, Device(0));
  DataParallel parallel(module);
  const Tensor output = parallel(x);
  CHECK(output.dtype() == DType::bf16);
  CHECK(difference(output, module(x)) == 0);
  CHECK_FALSE(autocast_dtype());
}

TEST_CASE("the caller's autocast type reaches every replica, and outside it the replicas compute in full precision") {
  struct Tells {
    void visit(Visitor&) {}
    Tensor operator()(const Tensor& x) const {
      return full({1}, autocast_dtype() == DType::bf16 ? 1 : 0, DType::f64, x.device());
    }
  } module;
  for (const ParallelApply mode : {ParallelApply::inline_, ParallelApply::workers}) {
    DataParallel parallel(module, {0, 1, 2, 3}, with_mode(mode));
    CHECK(values_of(parallel(numbers({4, 1}))) == std::vector<double>(4, 0));
    {
      const Autocast autocast(DType::bf16);
      CHECK(values_of(parallel(numbers({4, 1}))) == std::vector<double>(4, 1));
    }
    CHECK(values_of(parallel(numbers({4, 1}))) == std::vector<double>(4, 0));
  }
}

TEST_CASE("in bf16 a wrapped layer, called in every way, gives the plain output on the first device",
          "[torch 9.1.32-36 test_data_parallel_module, half]") {
  using Part = std::variant<Tensor, std::vector<Tensor>, std::map<std::string, Tensor>, std::tuple<>>;
  using Parts = std::map<std::string, Part>;
  struct Reads {
    Linear layer;
    void visit(Visitor& member) { member("layer", layer); }
    Tensor operator()(const Parts& input) const { return layer(std::get<Tensor>(input.at("data"))); }
  };
  Linear layer = linear_on(Device(0));
  const Tensor x = numbers_of<float>({20, 10}, Device(0));
  const Autocast autocast(DType::bf16);
  const Tensor expected = layer(x);
  DataParallel parallel(layer);
  CHECK(parallel(x).device() == Device(0));
  CHECK(difference(parallel(x), expected) < kBf16Rounding);

  Reads module{layer};
  DataParallel reading(module);
  for (const Part& unused :
       {Part(std::vector<Tensor>()), Part(std::map<std::string, Tensor>()), Part(std::tuple<>())}) {
    const Tensor output = reading(Parts{{"data", x}, {"unused", unused}});
    CHECK(output.device() == Device(0));
    CHECK(difference(output, expected) < kBf16Rounding);
  }
}

TEST_CASE("under autocast gradients stay f32 and equal one device's within bf16's rounding of the products") {
  Linear alone = linear_on(Device(0)), wrapped = linear_on(Device(0));
  DataParallel parallel(wrapped, {0, 1, 2});
  const Tensor x = numbers_of<float>({7, 10}, Device(0));
  {
    const Autocast autocast(DType::bf16);
    const Tensor of_alone = sum(alone(x)), of_wrapped = sum(parallel(x));
    CHECK(of_alone.dtype() == DType::f32);
    of_alone.backward();
    of_wrapped.backward();
  }
  CHECK(wrapped.weight.grad().dtype() == DType::f32);
  CHECK(difference(wrapped.weight.grad(), alone.weight.grad()) < 7 * kBf16Rounding);
  CHECK(elements_of(wrapped.bias.grad()) == std::vector<double>(5, 7));
}
