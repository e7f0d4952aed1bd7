// SPDX-License-Identifier: Apache-2.0
// What torch's C++ tests of torch::nn::parallel ask for.
#include <catch2/catch.hpp>
#include <stdexcept>

#include "runtime/autograd/backward.h"
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

const std::vector<Device> kTwo{Device(0), Device(1)};

Tensor host_ones(const Shape& shape) {
  return full(shape, 1, DType::f32, Device::host());
}

Linear seeded_linear(std::int64_t in, std::int64_t out) {
  manual_seed(11);
  return Linear(in, out);
}

}  // namespace

TEST_CASE("ten ones on the host become five on each device, and the sum of both pieces gives each a gradient of one",
          "[torch 9.3.1 DifferentiableScatter_MultiCUDA]") {
  const Tensor x = host_ones({10}).set_requires_grad();
  const std::vector<Tensor> pieces = scatter(x, kTwo);
  REQUIRE(pieces.size() == 2);
  for (int index = 0; index < 2; ++index) {
    CHECK(pieces[static_cast<std::size_t>(index)].shape() == Shape{5});
    CHECK(pieces[static_cast<std::size_t>(index)].device() == Device(index));
  }
  CHECK(difference(concat({to(pieces[0], Device::host()), to(pieces[1], Device::host())}), x) == 0);
  sum(pieces[0] + to(pieces[1], Device(0))).backward();
  REQUIRE(x.grad().defined());
  CHECK(x.grad().device() == Device::host());
  CHECK(elements_of(x.grad()) == std::vector<double>(10, 1));
}

TEST_CASE("five ones from each of two devices become ten on the second, and the gradients return to their devices",
          "[torch 9.3.2 DifferentiableGather_MultiCUDA]") {
  const Tensor a = leaf_on(Device(0), host_ones({5})), b = leaf_on(Device(1), host_ones({5}));
  const Tensor joined = gather(std::vector<Tensor>{a, b}, Device(1));
  CHECK(joined.shape() == Shape{10});
  CHECK(joined.device() == Device(1));
  CHECK(elements_of(joined) == std::vector<double>(10, 1));
  backward(joined, full({10}, 1, DType::f32, Device(1)));
  CHECK(a.grad().device() == Device(0));
  CHECK(b.grad().device() == Device(1));
  CHECK(item(sum(a.grad())) == 5);
  CHECK(item(sum(b.grad())) == 5);
}

TEST_CASE(
    "a layer is replicated to two devices: right devices, equal values, only the first shares the original's memory",
    "[torch 9.3.3 Replicate_MultiCUDA]") {
  Linear module = seeded_linear(3, 4);
  to(module, Device(0));
  std::vector<Linear> replicas = replicate(module, kTwo);
  REQUIRE(replicas.size() == 2);
  const std::vector<Tensor> originals = parameters(module);
  for (int index = 0; index < 2; ++index) {
    const std::vector<Tensor> of_replica = parameters(replicas[static_cast<std::size_t>(index)]);
    REQUIRE(of_replica.size() == originals.size());
    for (std::size_t number = 0; number < originals.size(); ++number) {
      CHECK(of_replica[number].device() == Device(index));
      CHECK(elements_of(of_replica[number]) == elements_of(originals[number]));
      CHECK((of_replica[number].raw_data() == originals[number].raw_data()) == (index == 0));
    }
  }
}

TEST_CASE("clones on several devices give equal outputs, each on its input's device",
          "[torch 9.3.4 ParallelApply_MultiCUDA]") {
  Linear first = seeded_linear(3, 4);
  std::vector<Linear> modules{clone(first), clone(first), clone(first)};
  std::vector<Tensor> inputs;
  const std::vector<Device> devices{Device(2), Device(0), Device(1)};
  for (std::size_t index = 0; index < 3; ++index) {
    to(modules[index], devices[index]);
    inputs.push_back(copied_to(host_ones({10, 3}), devices[index]));
  }
  const std::vector<Tensor> outputs = parallel_apply(modules, inputs);
  REQUIRE(outputs.size() == 3);
  for (std::size_t index = 0; index < 3; ++index) {
    CHECK(outputs[index].device() == devices[index]);
    CHECK(elements_of(outputs[index]) == elements_of(outputs[0]));
  }
}

TEST_CASE("integers that a module leaves on the host are joined on any device or on the host",
          "[torch 9.3.5 ParallelApplyWithDifferentOutputDevice_MultiCUDA]") {
  struct OnHost {
    void visit(Visitor&) {}
    Tensor operator()(const Tensor& x) const { return from_vector(std::vector<std::int64_t>{x.device().index()}, {1}); }
  };
  std::vector<OnHost> modules(3);
  const std::vector<Device> devices{Device(1), Device(0), Device(2)};
  std::vector<Tensor> inputs;
  for (const Device device : devices) inputs.push_back(numbers_on(device, {1}));
  const std::vector<Tensor> outputs = parallel_apply(modules, inputs, devices);
  for (const Tensor& output : outputs) CHECK(output.device().is_host());
  for (const Device target : {Device(1), Device(0), Device::host()}) {
    const Tensor joined = gather(outputs, target);
    CHECK(joined.device() == target);
    CHECK(to_vector<std::int64_t>(joined) == std::vector<std::int64_t>{1, 0, 2});
  }
}

TEST_CASE("an exception thrown in a replica reaches the caller with its type and words",
          "[torch 9.3.6 ParallelApplyRethrowsException_MultiCUDA]") {
  struct Bad {
    void visit(Visitor&) {}
    Tensor operator()(const Tensor&) const { throw std::runtime_error("Badness!"); }
  } module;
  const Tensor x = host_ones({10, 3});
  CHECK_THROWS_AS(data_parallel(module, {}, {}, x), std::runtime_error);
  CHECK_THROWS_WITH(data_parallel(module, {}, {}, x), Contains("replica 0 on cuda:0") && Contains("Badness!"));
  CHECK_THROWS_WITH(data_parallel(module, {1}, {}, x), Contains("Badness!"));
}

TEST_CASE("the output is on the requested device, for all devices and for a single one",
          "[torch 9.3.7 DataParallelPlacesTheOutputOnTheRequestedDevice_MultiCUDA]") {
  struct AddsOne {
    void visit(Visitor&) {}
    Tensor operator()(const Tensor& x) const { return x + 1; }
  } module;
  const Tensor x = host_ones({10, 3});
  DataParallelOptions options;
  options.output_device = Device(1);
  for (const std::vector<int>& ids : {std::vector<int>{}, {0}}) {
    const Tensor output = data_parallel(module, ids, options, x);
    CHECK(output.device() == Device(1));
    CHECK(elements_of(output) == std::vector<double>(30, 2));
  }
}

TEST_CASE("every device is used when the rows suffice: output i comes from device i",
          "[torch 9.3.8 DataParallelUsesAllAvailableCUDADevices_CUDA]") {
  struct TellsDevice {
    void visit(Visitor&) {}
    Tensor operator()(const Tensor& x) const {
      int current = -1;
      FANOUT_CHECK(cudaGetDevice(&current));
      if (current != x.device().index()) throw std::logic_error("another device is current");
      return copied_to(from_vector(std::vector<std::int64_t>{current}, {1}), x.device());
    }
  } module;
  const auto used = [&](std::int64_t rows) {
    return to_vector<std::int64_t>(data_parallel(module, {}, {}, host_ones({rows, 3})));
  };
  CHECK(used(8) == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(used(10) == std::vector<std::int64_t>{0, 1, 2, 3, 4});  // five pieces of two
}

TEST_CASE("three steps of SGD on all devices leave the parameters that three steps on one device leave",
          "[torch 9.3.9 DataParallelNumericalEquivalence_MultiCUDA]") {
  struct Classifier {
    Linear features{12, 9, true, DType::f64}, classes{9, 5, true, DType::f64};
    void visit(Visitor& member) {
      member("features", features);
      member("classes", classes);
    }
    Tensor operator()(const Tensor& x) const { return log_softmax(classes(relu(features(x)))); }
  };
  manual_seed(11);
  Classifier alone;
  Classifier wrapped = clone(alone);
  to(alone, Device(0));
  DataParallel parallel(wrapped);  // on the host until it is moved
  to(parallel, Device(0));
  const Tensor x = numbers({16, 12}), chosen = zeros({16, 5}, DType::f64, Device::host());
  for (std::int64_t row = 0; row < 16; ++row) chosen.data<double>()[row * 5 + row % 5] = 1;
  const Tensor mask = copied_to(chosen, Device(0));
  const auto train_on = [&](Classifier& module, auto&& call) {
    Sgd sgd(parameters(module), {.learning_rate = 0.1});
    for (int step = 0; step < 3; ++step) {
      sgd.zero_grad();
      (sum(call(to(x, Device(0))) * mask) * (-1.0 / 16)).backward();
      sgd.step();
    }
  };
  const std::vector<double> before = values_of(alone.features.weight);
  train_on(alone, alone);
  train_on(wrapped, parallel);
  const std::vector<Tensor> expected = parameters(alone), actual = parameters(wrapped);
  for (std::size_t index = 0; index < expected.size(); ++index) {
    CHECK(difference(actual[index], expected[index]) < kTolerance);
  }
  CHECK(largest_difference(values_of(alone.features.weight), before) > 1e-3);
}
