// SPDX-License-Identifier: Apache-2.0
// What torch's own tests of DataParallel and data_parallel ask for: arguments, placement, devices, containers.
#include "runtime/parallel/data_parallel.h"

#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <variant>

#include "runtime/autograd/backward.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/ops/reduce.h"
#include "runtime/ops/shape.h"
#include "tests/conformance/comparison.h"

using namespace fanout;
using namespace fanout::test;
using Catch::Matchers::Contains;

namespace {

// factor * (a * b), or factor * (a * b + c).
struct Combine {
  void visit(Visitor&) {}
  Tensor operator()(const Tensor& a, const Tensor& b, double factor, const std::optional<Tensor>& c = {}) const {
    return (c ? a * b + *c : a * b) * factor;
  }
};

template <class T>
Linear linear_on(Device device, std::int64_t in = 10, std::int64_t out = 5) {
  manual_seed(11);
  Linear layer(in, out, true, kDTypeOf<T>);
  to(layer, device);
  return layer;
}

DataParallelOptions checked_at_forward() {
  DataParallelOptions options;
  options.check_at_construction = false;
  return options;
}

DataParallelOptions to_device(Device device) {
  DataParallelOptions options;
  options.output_device = device;
  return options;
}

}  // namespace

TEMPLATE_TEST_CASE("two tensors, a number and an optional tensor from the host give the plain output and gradients",
                   "[torch 9.1.7 test_data_parallel_multiple_input]", float, double) {
  const Tensor a = leaf_on(Device::host(), numbers_of<TestType>({5, 5}, Device::host(), 1));
  const Tensor b = leaf_on(Device::host(), numbers_of<TestType>({5, 5}, Device::host(), 2));
  const Tensor c = numbers_of<TestType>({5, 5}, Device::host(), 3);
  const Tensor plain_a = leaf_on(Device(0), a), plain_b = leaf_on(Device(0), b), plain_c = copied_to(c, Device(0));
  const double factor = 0.375;
  Combine module;

  const auto check = [&](const Tensor& output, const std::optional<Tensor>& with) {
    plain_a.clear_grad();
    plain_b.clear_grad();
    const Tensor expected = module(plain_a, plain_b, factor, with);
    sum(expected).backward();
    sum(output).backward();
    CHECK(difference(output, to(expected, output.device())) < kRounding<TestType>);
    CHECK(a.grad().device() == Device::host());
    CHECK(difference(a.grad(), to(plain_a.grad(), Device::host())) < kRounding<TestType>);
    CHECK(difference(b.grad(), to(plain_b.grad(), Device::host())) < kRounding<TestType>);
    a.clear_grad();
    b.clear_grad();
  };

  for (const std::vector<int>& ids : {std::vector<int>{0, 1}, {1, 0}, {0}}) {
    check(data_parallel(module, ids, {}, a, b, factor), {});
    check(data_parallel(module, ids, {}, a, b, factor, c), plain_c);
    check(data_parallel(module, ids, {}, a, b, factor, std::optional<Tensor>()), {});
  }
  DataParallel everywhere(module), alone(module, {0});
  check(everywhere(a, b, factor), {});
  check(everywhere(a, b, factor, c), plain_c);
  check(alone(a, b, factor), {});
  check(alone(a, b, factor, c), plain_c);
}

TEMPLATE_TEST_CASE("twenty rows on two devices give the plain layer's output",
                   "[torch 9.1.8 test_data_parallel_small_back]", float, double) {
  Linear layer = linear_on<TestType>(Device(0));
  const Tensor x = numbers_of<TestType>({20, 10}, Device(0));
  const Tensor output = data_parallel(layer, {0, 1}, {}, x);
  CHECK(difference(output, layer(x)) < kRounding<TestType>);
  CHECK(output.device() == Device(0));
}

TEST_CASE("a module is accepted where all of it is on the first device when forward is called, and refused elsewhere",
          "[torch 9.1.9 test_data_parallel_model_device]") {
  struct Three {
    Linear first{2, 2, true, DType::f64}, second{2, 2, true, DType::f64}, third{2, 2, true, DType::f64};
    void visit(Visitor& member) {
      member("first", first);
      member("second", second);
      member("third", third);
    }
    Tensor operator()(const Tensor& x) const { return third(second(first(x))); }
  };
  struct Case {
    std::vector<Device> layers;      // where each layer is
    std::optional<Device> moved_to;  // where the wrapped module is moved before the forward
    std::vector<int> ids;            // empty: all devices
    bool accepted;
  };
  const Device host = Device::host(), zero(0), one(1);
  const std::vector<Case> cases{
      {{host, host, host}, {}, {}, false},       {{zero, zero, zero}, {}, {}, true},
      {{one, one, one}, {}, {}, false},          {{zero, zero, zero}, {}, {0, 1}, true},
      {{one, one, one}, {}, {1, 0}, true},       {{zero, zero, zero}, {}, {1, 0}, false},
      {{one, one, one}, {}, {0, 1}, false},      {{host, host, host}, zero, {}, true},
      {{host, host, host}, one, {}, false},      {{one, one, one}, zero, {}, true},
      {{zero, zero, zero}, one, {}, false},      {{host, host, host}, one, {1, 0}, true},
      {{host, host, host}, zero, {1, 0}, false}, {{zero, zero, zero}, host, {}, false},
      {{host, zero, one}, {}, {}, false},        {{host, zero, one}, {}, {0, 1}, false},
      {{host, zero, one}, {}, {1, 0}, false},    {{host, zero, one}, zero, {}, true},
      {{host, zero, one}, one, {1, 0}, true},    {{host, zero, one}, zero, {1, 0}, false},
      {{zero, zero, one}, {}, {0, 1}, false},    {{host, zero, one}, zero, {0}, true},
      {{one, one, one}, {}, {0}, false},         {{host, host, host}, {}, {0}, false},
  };
  for (const Case& each : cases) {
    CAPTURE(&each - cases.data());
    Three module;
    to(module.first, each.layers[0]);
    to(module.second, each.layers[1]);
    to(module.third, each.layers[2]);
    DataParallel parallel(module, each.ids, checked_at_forward());
    if (each.moved_to) to(parallel, *each.moved_to);
    const Tensor x = numbers({2, 2});
    if (each.accepted) {
      CHECK(parallel(x).shape() == Shape{2, 2});
      CHECK(data_parallel(module, each.ids, checked_at_forward(), x).shape() == Shape{2, 2});
    } else {
      const int first = each.ids.empty() ? 0 : each.ids[0];
      const std::string sentence =
          "module must have its parameters and buffers on device cuda:" + std::to_string(first) +
          " (device_ids[0]) but found one of them on device: ";
      CHECK_THROWS_AS(parallel(x), PlacementError);
      CHECK_THROWS_WITH(parallel(x), Contains(sentence));
      CHECK_THROWS_WITH(data_parallel(module, each.ids, checked_at_forward(), x), Contains(sentence));
    }
  }
}

TEMPLATE_TEST_CASE(
    "an input on the second device gives outputs on the first id and the plain gradients, ids in any order",
    "[torch 9.1.12 test_data_parallel]", float, double) {
  const Tensor x = numbers_of<TestType>({20, 10}, Device(1));
  Linear alone = linear_on<TestType>(Device(1));
  const Tensor expected = alone(x);
  sum(expected).backward();
  for (const std::vector<int>& ids : {std::vector<int>{0, 1}, {1, 0}}) {
    const DeviceGuard current((Device(ids[0])));
    Linear layer = linear_on<TestType>(Device(ids[0]));
    const Tensor output = data_parallel(layer, ids, {}, x);
    sum(output).backward();
    CHECK(output.device() == Device(ids[0]));
    CHECK(difference(output, to(expected, Device(ids[0]))) < kRounding<TestType>);
    CHECK(layer.weight.grad().device() == Device(ids[0]));
    CHECK(difference(layer.weight.grad(), to(alone.weight.grad(), Device(ids[0]))) < 10 * kRounding<TestType>);
    CHECK(difference(layer.bias.grad(), to(alone.bias.grad(), Device(ids[0]))) < 10 * kRounding<TestType>);
  }
  Linear layer = linear_on<TestType>(Device(0));
  CHECK(difference(data_parallel(layer, {}, {}, x), to(expected, Device(0))) < kRounding<TestType>);
}

namespace {

using Entry = std::variant<Tensor, std::vector<Tensor>>;
using Entries = std::map<std::string, Entry>;
using NestedOutput = std::tuple<Tensor, std::tuple<Tensor, Tensor, std::vector<Tensor>>, Tensor, Entries>;

NestedOutput nested(const Tensor& x) {
  return {x, {tanh(x), exp(x), {x + 1}}, x, Entries{{"a", x}, {"b", std::vector<Tensor>{tanh(x)}}}};
}

struct GivesNested {
  void visit(Visitor&) {}
  NestedOutput operator()(const Tensor& x) const { return nested(x); }
};

}  // namespace

TEST_CASE("tuples, vectors and maps in an output keep their types, and each tensor in them is joined",
          "[torch 9.1.14 test_data_parallel_nested_output]") {
  const Tensor x = numbers_on(Device(1), {2, 2});
  GivesNested module;
  const auto output = data_parallel(module, all_ids(), {}, x);
  static_assert(std::is_same_v<decltype(output), const NestedOutput>);
  const NestedOutput expected = nested(to(x, Device(0)));

  CHECK(difference(std::get<0>(output), std::get<0>(expected)) == 0);
  const auto& [tanh_of, exp_of, plus_one] = std::get<1>(output);
  CHECK(difference(tanh_of, std::get<0>(std::get<1>(expected))) == 0);
  CHECK(difference(exp_of, std::get<1>(std::get<1>(expected))) == 0);
  REQUIRE(plus_one.size() == 1);
  CHECK(difference(plus_one[0], std::get<2>(std::get<1>(expected))[0]) == 0);
  CHECK(difference(std::get<2>(output), std::get<2>(expected)) == 0);
  const Entries& entries = std::get<3>(output);
  REQUIRE(entries.size() == 2);
  CHECK(difference(std::get<Tensor>(entries.at("a")), std::get<0>(expected)) == 0);
  const auto& list = std::get<std::vector<Tensor>>(entries.at("b"));
  REQUIRE(list.size() == 1);
  CHECK(difference(list[0], tanh_of) == 0);
  CHECK(list[0].device() == Device(0));
}

TEST_CASE("a tuple among the arguments reaches each replica as a tuple of pieces",
          "[torch 9.1.15 test_data_parallel_nested_input]") {
  struct TakesNested {
    void visit(Visitor&) {}
    Tensor operator()(const Tensor&, const std::tuple<Tensor, Tensor>& pair, const Tensor&) const {
      return std::get<0>(pair);
    }
  } module;
  const Tensor x = numbers_on(Device(1), {20, 3});
  const Tensor output = data_parallel(module, all_ids(), {}, exp(x), std::tuple(tanh(x), x), tanh(x));
  CHECK(difference(output, to(tanh(x), Device(0))) == 0);
}

TEST_CASE("a module without arguments runs once, on the first device",
          "[torch 9.1.16 test_data_parallel_module_zero_inputs]") {
  struct Ones {
    Parameter eye{from_vector<double>({1, 0, 0, 0, 1, 0}, {2, 3})};
    int* calls = nullptr;
    void visit(Visitor& member) { member("eye", eye); }
    Tensor operator()() const {
      ++*calls;
      return eye + (1 - eye);
    }
  };
  int calls = 0;
  Ones module = seeded_on<Ones>(Device(0));
  module.calls = &calls;
  const auto check = [&](const Tensor& output) {
    CHECK(output.device() == Device(0));
    CHECK(difference(output, full({2, 3}, 1, DType::f64, Device(0))) == 0);
    CHECK(calls == 1);
    calls = 0;
  };
  for (const std::vector<int>& ids : {std::vector<int>{0}, {0, 1}, {}}) {
    DataParallel parallel(module, ids);
    check(parallel());
    check(data_parallel(module, ids, {}));
  }
}

TEMPLATE_TEST_CASE("devices may be given as Device values: the output is the plain one, on output_device",
                   "[torch 9.1.17 test_data_parallel_device_args]", float, double) {
  const Device cuda0 = Device::parse("cuda:0"), cuda1 = Device::parse("cuda:1");
  Linear layer = linear_on<TestType>(cuda0);
  const Tensor x = numbers_of<TestType>({20, 10}, cuda1), expected = layer(to(x, cuda0));
  for (const Device target : {cuda0, cuda1, Device(5)}) {
    const std::vector<int> ids{cuda0.index(), cuda1.index()};
    const Tensor output = data_parallel(layer, ids, to_device(target), x);
    CHECK(output.device() == target);
    CHECK(difference(output, to(expected, target)) < kRounding<TestType>);
  }
}
