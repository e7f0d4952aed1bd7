// SPDX-License-Identifier: Apache-2.0
// Which hooks fire how often, where, and with what.
#include <catch2/catch.hpp>
#include <map>
#include <mutex>

#include "runtime/autograd/backward.h"
#include "runtime/nn/hooked.h"
#include "runtime/nn/state_dict.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/ops/reduce.h"
#include "runtime/ops/shape.h"
#include "runtime/parallel/data_parallel.h"
#include "tests/conformance/comparison.h"

using namespace fanout;
using namespace fanout::test;

namespace {

struct Watched {
  Hooked<Linear> layer{Linear(6, 4, true, DType::f64)};
  void visit(Visitor& member) { member("layer", layer); }
  Tensor operator()(const Tensor& x) { return layer(x); }
};

// Rows and calls by device; replicas share it.
struct Seen {
  std::mutex lock;
  std::map<Device, std::pair<int, std::int64_t>> by_device;

  void note(const Tensor& x) {
    const std::lock_guard guard(lock);
    auto& [calls, rows] = by_device[x.device()];
    ++calls;
    rows += x.size(0);
  }
};

}  // namespace

TEST_CASE("a hook on a module fires once for each replica that runs, with that device's rows, and once on one device") {
  using Expected = std::map<Device, std::pair<int, std::int64_t>>;
  Watched module = seeded_on<Watched>(Device(0));
  Seen before, after;
  const HookHandle first = module.layer.before([&](Linear&, const Tensor& x) { before.note(x); });
  module.layer.after([&](Linear& layer, const Tensor& x, const Tensor& y) {
    int current = -1;
    FANOUT_CHECK(cudaGetDevice(&current));
    const bool at_home = layer.weight.device() == x.device() && y.device() == x.device();
    after.note(at_home && current == x.device().index() ? y : numbers({1}));
  });
  for (const ParallelApply mode : {ParallelApply::inline_, ParallelApply::workers}) {
    DataParallel parallel(module, {0, 3, 1, 2}, with_mode(mode));
    (void)parallel(numbers({9, 6}));
    const Expected three{{Device(0), {1, 3}}, {Device(1), {1, 3}}, {Device(3), {1, 3}}};
    CHECK(before.by_device == three);
    CHECK(after.by_device == three);
    before.by_device.clear();
    after.by_device.clear();
  }
  first.remove();
  DataParallel alone(module, {0});
  (void)alone(numbers({9, 6}));
  CHECK(before.by_device.empty());
  CHECK(after.by_device == Expected{{Device(0), {1, 9}}});
}

TEST_CASE("a hook on the wrapper fires once, in the caller, with the whole batch and the joined output") {
  Net module = seeded_on<Net>(Device(0));
  Hooked<DataParallel<Net>> parallel{DataParallel<Net>(module, {0, 1, 2})};
  int calls = 0;
  parallel.after([&](DataParallel<Net>&, const Tensor& x, Tensor& y) {
    ++calls;
    CHECK(x.shape() == Shape{9, 6});
    CHECK(y.shape() == Shape{9, 4});
    y = y * 2;
  });
  const Tensor x = numbers({9, 6}), output = parallel(x);
  CHECK(calls == 1);
  CHECK(difference(output, module(to(x, Device(0))) * 2) < kTolerance);
  CHECK(state_dict(parallel)[0].name == "first.weight");
}

TEST_CASE("a hook that replaces a replica's output takes part in its gradients") {
  Watched module = seeded_on<Watched>(Device(0)), alone = clone(module);
  for (Watched* watched : {&module, &alone}) {
    watched->layer.after([](Linear&, const Tensor&, Tensor& y) { y = square(y); });
  }
  DataParallel parallel(module, {0, 1, 2});
  const Tensor x = numbers({8, 6});
  sum(parallel(x)).backward();
  sum(alone(to(x, Device(0)))).backward();
  CHECK(gradient_difference(module, alone) < kTolerance);
}
