// SPDX-License-Identifier: Apache-2.0
// What users met with the module's copies: statistics, state outside the registry, parameters seen from inside.
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <mutex>

#include "runtime/nn/hooked.h"
#include "runtime/nn/state_dict.h"
#include "runtime/ops/arithmetic.h"
#include "tests/conformance/user_cases.h"

using namespace fanout;
using namespace fanout::test;
using Catch::Matchers::Contains;

namespace {

struct Normed {
  BatchNorm1d norm{3, {.dtype = DType::f64}};
  void visit(Visitor& member) { member("norm", norm); }
  Tensor operator()(const Tensor& x) const { return norm(x); }
};

// Rows 0 to 3 are 0, rows 4 to 7 are 10.
Tensor zeros_and_tens() {
  std::vector<double> values(24, 0);
  std::fill(values.begin() + 12, values.end(), 10);
  return from_vector(values, {8, 3});
}

}  // namespace

TEST_CASE("running statistics are those of the primary's rows, the same in every run", "[case 26]") {
  for (int run = 0; run < 3; ++run) {
    for (const ParallelApply mode : all_modes()) {
      Normed module = seeded_on<Normed>(Device(0));
      DataParallel parallel(module, {0, 1}, with_mode(mode));
      (void)parallel(zeros_and_tens());
      CHECK(values_of(module.norm.running_mean) == repeated(3, 0.0));
      CHECK(values_of(module.norm.running_var) == repeated(3, 0.9));  // 0.9 * 1 + 0.1 * 0
      CHECK(to_vector<std::int64_t>(module.norm.num_batches_tracked) == std::vector<std::int64_t>{1});
    }
  }
}

TEST_CASE("a buffer may be the mean over the replicas instead, or the sum of their changes", "[case 26]") {
  for (const auto& [policy, mean] :
       std::map<BufferPolicy, double>{{BufferPolicy::mean, 0.5}, {BufferPolicy::sum, 1.0}}) {
    Normed module = seeded_on<Normed>(Device(0));
    DataParallelOptions options;
    options.buffer_policies = {{"running_mean", policy}};
    DataParallel parallel(module, {0, 1}, options);
    (void)parallel(zeros_and_tens());
    CHECK(largest_difference(values_of(module.norm.running_mean), repeated(3, mean)) < kTolerance);
    CHECK(values_of(module.norm.running_var) == repeated(3, 0.9));  // still the primary's
  }
}

TEST_CASE("in evaluation equal rows give the same bits on every device", "[case 26]") {
  Normed module = seeded_on<Normed>(Device(0));
  DataParallel parallel(module, {0, 1, 2, 3});
  (void)parallel(numbers({8, 3}));
  eval(module);
  const Tensor row = numbers({1, 3}, 5);
  const std::vector<double> y = values_of(parallel(concat(std::vector<Tensor>(8, row))));
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == y[i % 3]);
}

namespace {

// A tensor that no visit names.
struct Unregistered {
  Linear layer{3, 3, true, DType::f64};
  Tensor scale = full({3}, 2, DType::f64, Device(0));
  void visit(Visitor& member) { member("layer", layer); }
  Tensor operator()(const Tensor& x) const { return layer(x) * scale; }
};

// Addresses of the first object's parameters, kept by its copies.
struct CachedPointers {
  Linear layer{3, 3, true, DType::f64};
  std::vector<Tensor*> cached;
  CachedPointers() : cached{&layer.weight, &layer.bias} {}
  void visit(Visitor& member) { member("layer", layer); }
  Tensor operator()(const Tensor& x) const { return linear(x, *cached[0], *cached[1]); }
};

// A function that goes on using the object in which it was made.
struct Capturing {
  Linear layer{3, 3, true, DType::f64};
  std::function<Tensor(const Tensor&)> apply;
  Capturing() : apply([this](const Tensor& x) { return layer(x); }) {}
  void visit(Visitor& member) { member("layer", layer); }
  Tensor operator()(const Tensor& x) const { return apply(x); }
};

template <class M>
void require_refusal(const std::string& operation) {
  M module;
  to(module, Device(0));
  for (const ParallelApply mode : {ParallelApply::inline_, ParallelApply::workers}) {
    DataParallel parallel(module, {0, 1}, with_mode(mode));
    CHECK_THROWS_AS(parallel(numbers({4, 3})), PlacementError);
    CHECK_THROWS_WITH(parallel(numbers({4, 3})), Contains("replica 1 on cuda:1 (input f64 [2, 3]): " + operation +
                                                          ": tensors on cuda:1 and cuda:0; "
                                                          "all must be on one device"));
    CHECK(parallel(numbers({1, 3})).shape() == Shape{1, 3});  // the primary alone
  }
}

}  // namespace

TEST_CASE("state outside visit that lies on the primary is refused in replica 1 by operator and devices, never read",
          "[case 28]") {
  require_refusal<Unregistered>("multiply");
  require_refusal<CachedPointers>("linear");
  require_refusal<Capturing>("linear");
}

TEST_CASE("inside a replica the parameters have the module's names, order and values, on the replica's device",
          "[case 29]") {
  struct Seen {
    std::vector<std::string> names;
    std::vector<Device> devices;
    std::vector<std::vector<double>> values;
  };
  struct Curious {
    Mlp net = Mlp(3, 4, 2);
    std::map<int, Seen>* seen = nullptr;
    std::mutex* lock = nullptr;
    void visit(Visitor& member) { member("net", net); }
    Tensor operator()(const Tensor& x) const {
      Seen here;
      for (const auto& [name, tensor] : named_parameters(*this)) {
        here.names.push_back(name);
        here.devices.push_back(tensor.device());
        here.values.push_back(values_of(tensor));
      }
      const std::lock_guard guard(*lock);
      (*seen)[x.device().index()] = here;
      return net(x);
    }
  };
  std::map<int, Seen> seen;
  std::mutex lock;
  Curious module = seeded_on<Curious>(Device(1));
  module.seen = &seen;
  module.lock = &lock;
  DataParallel parallel(module, {1, 0, 3});
  (void)parallel(numbers({6, 3}));
  REQUIRE(seen.size() == 3);
  for (const auto& [device, here] : seen) {
    CHECK(here.names == std::vector<std::string>{"net.fc1.weight", "net.fc1.bias", "net.fc2.weight", "net.fc2.bias"});
    CHECK(here.devices == std::vector<Device>(4, Device(device)));
    CHECK(here.values == seen.at(1).values);
  }
}

TEST_CASE("a forward without graph leaves the flags alone, and the next one is differentiable", "[case 31]") {
  Mlp module = mlp(3, 4, 2, Device(0)), alone = mlp(3, 4, 2, Device(0));
  DataParallel parallel(module, {0, 1});
  const Tensor x = numbers({6, 3});
  CHECK(parallel(x).requires_grad());
  {
    const NoGrad no_graph;
    CHECK_FALSE(parallel(x).requires_grad());
  }
  const Tensor y = parallel(x);
  CHECK(y.requires_grad());
  for (const Tensor& parameter : parameters(module)) CHECK(parameter.requires_grad());
  sum(square(y)).backward();
  sum(square(alone(to(x, Device(0))))).backward();
  CHECK(gradient_difference(module, alone) < kTolerance);
}

namespace {

struct HookLog {
  std::mutex lock;
  std::map<std::pair<int, std::int64_t>, int> calls;  // by device and rows
  int mixed = 0, inner = 0;
};

// Every forward adds a hook to its own layer; replica 1 takes it away again before the call.
struct WithHooks {
  Hooked<Linear> layer{Linear(3, 2, true, DType::f64)};
  HookLog* log = nullptr;

  void visit(Visitor& member) { member("layer", layer); }
  Tensor operator()(const Tensor& x) {
    const HookHandle inner = layer.after([log = log](Linear&, const Tensor&, const Tensor&) {
      const std::lock_guard guard(log->lock);
      ++log->inner;
    });
    if (x.device() == Device(1)) inner.remove();
    const Tensor y = layer(x);
    inner.remove();
    return y;
  }
};

}  // namespace

TEST_CASE("a hook is called once by each replica with its own device, and adding and removing one stays in the replica",
          "[case 32]") {
  for (const ParallelApply mode : all_modes()) {
    HookLog log;
    WithHooks module = seeded_on<WithHooks>(Device(0));
    module.log = &log;
    const HookHandle outer = module.layer.after([&log](Linear& layer, const Tensor& x, const Tensor& y) {
      const std::lock_guard guard(log.lock);
      ++log.calls[{x.device().index(), x.size(0)}];
      if (layer.weight.device() != x.device() || y.device() != x.device()) ++log.mixed;
    });
    DataParallel parallel(module, {0, 1, 2, 3}, with_mode(mode));
    for (int step = 0; step < 100; ++step) (void)parallel(numbers({8, 3}));
    const std::map<std::pair<int, std::int64_t>, int> expected{
        {{0, 2}, 100}, {{1, 2}, 100}, {{2, 2}, 100}, {{3, 2}, 100}};
    CHECK(log.calls == expected);
    CHECK(log.mixed == 0);
    CHECK(log.inner == 300);
    outer.remove();
    (void)parallel(numbers({8, 3}));
    CHECK(log.calls == expected);
  }
}

namespace {

// Children whose own names look like a wrapper's prefix.
struct OddlyNamed {
  Mlp inside = Mlp(3, 4, 2), mine = Mlp(3, 4, 2);
  void visit(Visitor& member) {
    member("module", inside);
    member("my_module", mine);
  }
  Tensor operator()(const Tensor& x) const { return inside(x) + mine(x); }
};

struct Bigger {
  Mlp net = Mlp(3, 4, 2);
  DataParallel<Mlp> enc{net, {0, 1}};
  void visit(Visitor& member) { member("enc", enc); }
};

template <class M>
std::vector<std::pair<std::string, std::vector<double>>> state_of(M& module) {
  std::vector<std::pair<std::string, std::vector<double>>> state;
  for (const auto& [name, tensor] : state_dict(module)) state.emplace_back(name, values_of(tensor));
  return state;
}

}  // namespace

TEST_CASE(
    "a wrapper adds no level to names, one leading level of a foreign file is left out, and the model's own survive",
    "[case 46]") {
  OddlyNamed module = seeded_on<OddlyNamed>(Device(0)), other;
  DataParallel parallel(module, {0, 1});
  CHECK(state_of(parallel) == state_of(module));
  CHECK(state_of(module)[0].first == "module.fc1.weight");
  CHECK_FALSE(load_state_dict(other, state_dict(parallel)).prefix_removed);
  CHECK(state_of(other) == state_of(module));
  CHECK(load_state_dict(parallel, add_prefix(state_dict(other), "module.")).prefix_removed);
  CHECK(state_of(parallel) == state_of(other));
  StateDict mixed = add_prefix(state_dict(other), "module.");
  mixed[0].name = "module.fc1.weight";
  CHECK_THROWS_AS(load_state_dict(module, mixed), InvalidArgument);
  Bigger bigger;
  CHECK(state_of(bigger)[0].first == "enc.fc1.weight");
}
