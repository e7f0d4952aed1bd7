// SPDX-License-Identifier: Apache-2.0
// What torch's source says about DataParallel and its own tests do not ask: devices, replicas, gradients, exceptions.
#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>

#include "runtime/autograd/backward.h"
#include "runtime/autograd/hook.h"
#include "runtime/nn/state_dict.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/ops/reduce.h"
#include "runtime/ops/shape.h"
#include "runtime/parallel/data_parallel.h"
#include "tests/conformance/comparison.h"

using namespace fanout;
using namespace fanout::test;
using Catch::Matchers::Contains;

namespace {

// Adds 1 to its argument and counts its calls; the counter is shared by all replicas.
struct Counts {
  std::atomic<int>* calls;
  void visit(Visitor&) {}
  Tensor operator()(const Tensor& x, double number = 1) const {
    ++*calls;
    return x + number;
  }
};

DataParallelOptions along(int dim, Device target) {
  DataParallelOptions options;
  options.dim = dim;
  options.output_device = target;
  return options;
}

}  // namespace

// ---- Devices and arguments ----

TEST_CASE("a device is named by its index or by text, and what names none is refused") {
  CHECK(Device::parse("cuda:3") == Device(3));
  CHECK(Device::parse("cpu") == Device::host());
  CHECK(Device(3).name() == "cuda:3");
  for (const char* text : {"cuda:", "cuda:-1", "gpu:0", "3", "", "cuda:1x"}) {
    CHECK_THROWS_AS(Device::parse(text), InvalidArgument);
  }
  Net module = seeded_on<Net>(Device(0));
  CHECK(DataParallel(module).devices() == devices_of(all_ids()));
  CHECK(DataParallel(module, {0, 3, 2}).devices() == devices_of({0, 3, 2}));
  for (const std::vector<int>& ids : {std::vector<int>{0, 0}, {0, 8}, {-1}, {0, -1}}) {
    CHECK_THROWS_AS(DataParallel(module, ids), InvalidArgument);
  }
  DataParallelOptions elsewhere;
  elsewhere.output_device = Device(8);
  CHECK_THROWS_AS(DataParallel(module, {0, 1}, elsewhere), InvalidArgument);
}

TEST_CASE("one device: no replica, nothing is moved at construction, rank 0 stays, and output_device is honoured") {
  struct Total {
    Linear layer{6, 4, true, DType::f64};
    void visit(Visitor& member) { member("layer", layer); }
    Tensor operator()(const Tensor& x) const { return sum(layer(x)); }
  };
  Total on_host;
  const DataParallel untouched(on_host, {1});
  CHECK(on_host.layer.weight.device().is_host());

  Total module = seeded_on<Total>(Device(1));
  const Tensor x = numbers({5, 6});
  for (const Device target : {Device(1), Device(2), Device::host()}) {
    DataParallel parallel(module, {1}, along(0, target));
    const Tensor output = parallel(x);
    CHECK(output.device() == target);
    CHECK(output.shape() == Shape{});
    CHECK(std::abs(item(output) - item(module(to(x, Device(1))))) < kTolerance);
  }
}

TEST_CASE("fewer pieces than devices: only the first devices run, and the output is still joined and moved") {
  std::atomic<int> calls = 0;
  Counts module{&calls};
  struct Total {
    void visit(Visitor&) {}
    Tensor operator()(const Tensor& x) const { return sum(x); }
  } total;
  for (const auto& [rows, pieces] : std::vector<std::pair<std::int64_t, int>>{{1, 1}, {2, 2}, {9, 3}, {4, 4}}) {
    DataParallel parallel(module, {2, 0, 1, 3}, along(0, Device(5)));
    calls = 0;
    const Tensor output = parallel(numbers({rows, 2}));
    CHECK(calls == pieces);
    CHECK(output.device() == Device(5));
    DataParallel sums(total, {2, 0, 1, 3}, along(0, Device(5)));
    const Tensor joined = sums(numbers({rows, 2}));
    CHECK(joined.shape() == Shape{pieces});
    CHECK(joined.device() == Device(5));
  }
}

TEST_CASE("tensors alone decide the number of pieces, and arguments without any tensor run every device") {
  std::atomic<int> calls = 0;
  Counts module{&calls};
  DataParallel parallel(module, {0, 1, 2, 3});
  CHECK(parallel(numbers({2, 2}), 3.0).shape() == Shape{2, 2});
  CHECK(calls == 2);
  struct Plain {
    std::atomic<int>* calls;
    void visit(Visitor&) {}
    Tensor operator()(double number) const {
      ++*calls;
      int current = -1;
      FANOUT_CHECK(cudaGetDevice(&current));
      return full({1}, number + current, DType::f64, Device(current));
    }
  } plain{&calls};
  calls = 0;
  CHECK(values_of(data_parallel(plain, {3, 0, 1}, {}, 10.0)) == std::vector<double>{13, 10, 11});
  CHECK(calls == 3);
}

TEST_CASE("dim is where inputs are split and outputs are joined, from the back too, and the host is an output device") {
  std::atomic<int> calls = 0;
  Counts module{&calls};
  const Tensor x = numbers({3, 7, 2});
  for (const int dim : {0, 1, 2, -1, -2, -3}) {
    for (const Device target : {Device(0), Device(7), Device::host()}) {
      DataParallel parallel(module, {0, 1, 2}, along(dim, target));
      const Tensor output = parallel(x);
      CHECK(output.device() == target);
      CHECK(output.shape() == x.shape());
      std::vector<double> expected = values_of(x);
      for (double& value : expected) value += 1;
      CHECK(values_of(output) == expected);
    }
  }
}

// ---- Names, modes, replicas ----

TEST_CASE("the wrapper adds nothing to names in a state, and a state of either loads into the other") {
  Net module = seeded_on<Net>(Device(0));
  DataParallel parallel(module, {0, 1});
  const StateDict wrapped = state_dict(parallel), plain = state_dict(module);
  REQUIRE(wrapped.size() == 4);
  for (std::size_t index = 0; index < plain.size(); ++index) CHECK(wrapped[index].name == plain[index].name);
  CHECK(wrapped[0].name == "first.weight");
  Net other;
  load_state_dict(other, wrapped);
  CHECK(values_of(other.second.bias) == values_of(module.second.bias));
  other.second.bias.count_write();
  CHECK_NOTHROW(load_state_dict(parallel, state_dict(other)));
}

TEST_CASE("training and evaluation reach the replicas of the next forward") {
  struct Tells {
    Mode mode;
    void visit(Visitor& member) { member("mode", mode); }
    Tensor operator()(const Tensor& x) const { return full({1}, mode.training, DType::f64, x.device()); }
  } module;
  DataParallel parallel(module, {0, 1, 2});
  CHECK(values_of(parallel(numbers({3, 1}))) == std::vector<double>{1, 1, 1});
  eval(parallel);
  CHECK(values_of(parallel(numbers({3, 1}))) == std::vector<double>{0, 0, 0});
  train(module);
  CHECK(values_of(parallel(numbers({3, 1}))) == std::vector<double>{1, 1, 1});
}

TEST_CASE("replica 0 shares the original's memory, the others do not, tied parameters are tied in each replica") {
  struct Tied {
    Linear in{3, 3, true, DType::f64}, out{3, 3, true, DType::f64};
    Buffer kept{Shape{2}, DType::f64};
    Tied() { out.weight = in.weight; }
    void visit(Visitor& member) {
      member("in", in);
      member("out", out);
      member("kept", kept);
    }
  };
  Tied module = seeded_on<Tied>(Device(0));
  for (const bool graph : {true, false}) {
    const GradMode mode(graph);
    const std::vector<Tied> replicas = replicate(module, devices_of({0, 1, 2}));
    for (std::size_t index = 0; index < replicas.size(); ++index) {
      const Tied& replica = replicas[index];
      CHECK(&replica.in.weight.body() == &replica.out.weight.body());
      CHECK((replica.in.weight.raw_data() == module.in.weight.raw_data()) == (index == 0));
      CHECK((replica.kept.raw_data() == module.kept.raw_data()) == (index == 0));
      CHECK(static_cast<bool>(replica.in.weight.body().producer) == graph);
      CHECK_FALSE(replica.kept.body().producer);
    }
  }
  CHECK(replicate(module, {}).empty());
  CHECK_FALSE(module.in.weight.body().producer);
}

TEST_CASE("what replica 0 writes to a buffer stays, what others write is gone at the next forward") {
  struct Marks {
    Buffer seen{Shape{1}, DType::f64};
    void visit(Visitor& member) { member("seen", seen); }
    Tensor operator()(const Tensor& x) const {
      const Tensor before = x * 0 + seen;
      copy(seen, seen + static_cast<double>(x.device().index() + 1));
      return before;
    }
  };
  Marks module = seeded_on<Marks>(Device(1));
  DataParallel parallel(module, {1, 0, 3});
  for (int step = 0; step < 3; ++step) {
    CHECK(values_of(parallel(numbers({3, 1}))) == std::vector<double>(3, 2.0 * step));
    CHECK(values_of(module.seen) == std::vector<double>{2.0 * (step + 1)});
  }
}

TEST_CASE("a buffer written in forward does not spoil what another one was saved for, on any replica") {
  struct Writes {
    Parameter weight{numbers({2}, 3)};
    Buffer factor{numbers({2}, 4)}, written{Shape{2}, DType::f64};
    void visit(Visitor& member) {
      member("weight", weight);
      member("factor", factor);
      member("written", written);
    }
    Tensor operator()(const Tensor& x) const {
      const Tensor y = x * (weight * factor);
      copy(written, written + 1.0);
      return y;
    }
  };
  Writes module = seeded_on<Writes>(Device(0));
  DataParallel parallel(module, {0, 1});
  sum(parallel(full({4, 2}, 1, DType::f64, Device::host()))).backward();
  std::vector<double> expected = values_of(module.factor);
  for (double& value : expected) value *= 4;
  CHECK(largest_difference(values_of(module.weight.grad()), expected) < kTolerance);
}

// ---- Gradients ----

TEST_CASE("gradients are summed over the replicas, never averaged, in each parameter's own type") {
  struct TwoTypes {
    Parameter narrow{Shape{1}, DType::f32}, wide{Shape{1}, DType::f64};
    void visit(Visitor& member) {
      member("narrow", narrow);
      member("wide", wide);
    }
    std::pair<Tensor, Tensor> operator()(const Tensor& x, const Tensor& y) const { return {x * narrow, y * wide}; }
  };
  TwoTypes module = seeded_on<TwoTypes>(Device(0));
  DataParallel parallel(module, {0, 1, 2});
  const Tensor x = full({8, 1}, 1, DType::f32, Device::host()), y = full({8, 1}, 2, DType::f64, Device::host());
  const auto [of_narrow, of_wide] = parallel(x, y);
  sum(of_narrow).backward();
  sum(of_wide).backward();
  CHECK(module.narrow.grad().dtype() == DType::f32);
  CHECK(elements_of(module.narrow.grad()) == std::vector<double>{8});
  CHECK(elements_of(module.wide.grad()) == std::vector<double>{16});
  mean(parallel(x, y).second).backward();  // a mean over the joined rows weights them alike: 3, 3 and 2 rows
  CHECK(elements_of(module.wide.grad()) == std::vector<double>{18});
}

TEST_CASE("an unused parameter keeps no gradient, a frozen one gets none, and a frozen module builds no graph") {
  struct Half {
    Parameter used{Shape{1}, DType::f64}, unused{Shape{1}, DType::f64}, frozen{Shape{1}, DType::f64};
    void visit(Visitor& member) {
      member("used", used);
      member("unused", unused);
      member("frozen", frozen);
    }
    Tensor operator()(const Tensor& x) const { return x * used + frozen; }
  };
  for (const std::vector<int>& ids : {std::vector<int>{0}, {0, 1}}) {
    Half module = seeded_on<Half>(Device(0));
    module.frozen.set_requires_grad(false);
    DataParallel parallel(module, ids);
    sum(parallel(full({4, 1}, 1, DType::f64, Device::host()))).backward();
    CHECK(values_of(module.used.grad()) == std::vector<double>{4});
    CHECK_FALSE(module.unused.grad().defined());
    CHECK_FALSE(module.frozen.grad().defined());
    for (const Tensor& parameter : parameters(module)) parameter.set_requires_grad(false);
    CHECK_FALSE(parallel(numbers({4, 1})).requires_grad());
  }
}

TEST_CASE("a hook on a parameter sees the sum over all replicas once, and what it returns is the gradient") {
  Net module = seeded_on<Net>(Device(0)), alone = clone(module);
  DataParallel parallel(module, {0, 1, 2});
  const Tensor x = numbers({7, 6});
  sum(square(alone(to(x, Device(0))))).backward();
  int calls = 0;
  Tensor seen;
  const HookHandle handle = register_hook(module.first.weight, [&](const Tensor& gradient) {
    ++calls;
    seen = copied_to(gradient, gradient.device());
    return gradient * 2;
  });
  sum(square(parallel(x))).backward();
  CHECK(calls == 1);
  CHECK(difference(seen, alone.first.weight.grad()) < kTolerance);
  CHECK(difference(module.first.weight.grad(), alone.first.weight.grad() * 2) < kTolerance);
  CHECK(difference(module.second.weight.grad(), alone.second.weight.grad()) < kTolerance);
  handle.remove();
  zero_grad(module);
  sum(square(parallel(x))).backward();
  CHECK(calls == 1);
  CHECK(gradient_difference(module, alone) < kTolerance);
}
