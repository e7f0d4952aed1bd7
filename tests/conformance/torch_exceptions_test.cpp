// SPDX-License-Identifier: Apache-2.0
// Whose exception reaches the caller, as what, and what holds afterwards.
#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "runtime/autograd/backward.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/ops/reduce.h"
#include "runtime/parallel/data_parallel.h"
#include "tests/conformance/comparison.h"

using namespace fanout;
using namespace fanout::test;

namespace {

// Throws on the replicas whose first element is negative; every call is counted.
template <class Exception>
struct Throws {
  std::atomic<int>* calls;
  void visit(Visitor&) {}
  Tensor operator()(const Tensor& x) const {
    ++*calls;
    const double row = item(sum(x));
    if (row < 0) throw Exception("row " + std::to_string(static_cast<int>(-row)));
    return x * 2;
  }
};

/// One row for each of four devices.
Tensor rows(const std::vector<double>& values) {
  return from_vector(values, {static_cast<std::int64_t>(values.size()), 1});
}

struct OwnError : std::out_of_range {
  using std::out_of_range::out_of_range;
};

}  // namespace

TEMPLATE_TEST_CASE("all replicas are run, then the lowest one's failure is rethrown with its type, naming the others",
                   "", std::runtime_error, std::out_of_range, std::invalid_argument, InvalidArgument) {
  for (const ParallelApply mode : {ParallelApply::inline_, ParallelApply::workers}) {
    std::atomic<int> calls = 0;
    Throws<TestType> module{&calls};
    DataParallel parallel(module, {2, 0, 3, 1}, with_mode(mode));
    const auto failing = [&](const std::vector<double>& values, const std::string& text) {
      calls = 0;
      CHECK_THROWS_AS(parallel(rows(values)), TestType);
      CHECK(calls == 4);
      CHECK_THROWS_WITH(parallel(rows(values)), text);
    };
    failing({1, -7, 1, 1}, "replica 1 on cuda:0 (input f64 [1, 1]): row 7");
    failing({1, -7, 1, -9}, "replica 1 on cuda:0 (input f64 [1, 1]): row 7 (replica 3 failed too)");
    failing({-5, 1, -7, -9}, "replica 0 on cuda:2 (input f64 [1, 1]): row 5 (replicas 2, 3 failed too)");
    CHECK(parallel.failures().size() == 3);
    CHECK(parallel.failures()[1].replica == 2);
    CHECK(parallel.failures()[1].device == Device(3));
    CHECK(values_of(parallel(rows({1, 2, 3, 4}))) == std::vector<double>{2, 4, 6, 8});
    CHECK(parallel.failures().empty());
  }
}

TEST_CASE("an exception of the caller's own type, or of no standard type, reaches the caller unchanged") {
  std::atomic<int> calls = 0;
  Throws<OwnError> module{&calls};
  DataParallel parallel(module, {0, 1});
  CHECK_THROWS_AS(parallel(rows({1, -7})), OwnError);
  CHECK_THROWS_WITH(parallel(rows({1, -7})), "row 7");
  REQUIRE(parallel.failures().size() == 1);
  CHECK(parallel.failures()[0].text == "replica 1 on cuda:1 (input f64 [1, 1]): row 7");

  struct ThrowsNumber {
    void visit(Visitor&) {}
    Tensor operator()(const Tensor& x) const {
      if (x.device() == Device(1)) throw 42;
      return x;
    }
  } of_number;
  DataParallel numbers_thrown(of_number, {0, 1});
  CHECK_THROWS_AS(numbers_thrown(rows({1, 2})), int);
}

TEST_CASE("after a failure the caller's device, grad mode and gradients are as before") {
  std::atomic<int> calls = 0;
  Throws<std::runtime_error> module{&calls};
  const DeviceGuard current((Device(2)));
  CHECK_THROWS(data_parallel(module, {0, 1}, {}, rows({-1, -2})));
  int device = -1;
  REQUIRE(cudaGetDevice(&device) == cudaSuccess);
  CHECK(device == 2);
  CHECK(grad_enabled());
}

TEST_CASE("parallel_apply wants one input, and one device if any is given, for each module") {
  std::vector<Linear> layers{Linear(2, 2), Linear(2, 2)};
  const std::vector<Tensor> one{numbers_of<float>({1, 2}, Device(0))}, two{one[0], one[0]};
  const std::string rule = "; there must be one of each for every module (devices may be left out)";
  CHECK_THROWS_WITH(parallel_apply(layers, one), "parallel_apply: 2 modules, 1 inputs, 0 devices" + rule);
  CHECK_THROWS_WITH(parallel_apply(layers, two, {Device(0)}), "parallel_apply: 2 modules, 2 inputs, 1 devices" + rule);
}

TEST_CASE("parallel_apply takes tuples as argument lists and carries the grad mode") {
  struct Scale {
    void visit(Visitor&) {}
    Tensor operator()(const Tensor& x, double factor) const { return grad_enabled() ? x * factor : x * (-factor); }
  };
  std::vector<Scale> modules(4);
  std::vector<std::tuple<Tensor, double>> inputs;
  for (int index = 0; index < 4; ++index) inputs.emplace_back(numbers_on(Device(index), {5, 4}, index), index + 1.0);
  for (const bool graph : {true, false}) {
    const GradMode mode(graph);
    const std::vector<Tensor> outputs = parallel_apply(modules, inputs);
    for (std::size_t index = 0; index < outputs.size(); ++index) {
      const auto& [x, factor] = inputs[index];
      CHECK(difference(outputs[index], graph ? x * factor : x * (-factor)) == 0);
    }
  }
}

TEST_CASE("modules that parallel_apply runs on one device take turns there, in their order") {
  struct Tells {
    std::vector<std::thread::id>* threads;
    std::atomic<int>* turn;
    std::vector<int>* turns;
    std::size_t number;
    void visit(Visitor&) {}
    Tensor operator()(const Tensor& x) const {
      (*threads)[number] = std::this_thread::get_id();
      (*turns)[number] = (*turn)++;
      return x * static_cast<double>(number + 1);
    }
  };
  const std::vector<Device> devices = devices_of({0, 0, 1, 1, 0, 1});
  std::vector<std::thread::id> threads(devices.size());
  std::vector<int> turns(devices.size());
  std::atomic<int> turn = 0;
  std::vector<Tells> modules;
  std::vector<Tensor> inputs;
  for (std::size_t number = 0; number < devices.size(); ++number) {
    modules.push_back({&threads, &turn, &turns, number});
    inputs.push_back(numbers_on(devices[number], {50, 40}, static_cast<int>(number)));
  }
  const std::vector<Tensor> outputs = parallel_apply(modules, inputs);
  for (std::size_t number = 0; number < devices.size(); ++number) {
    CHECK(difference(outputs[number], inputs[number] * static_cast<double>(number + 1)) == 0);
    const std::size_t first = devices[number] == Device(0) ? 0 : 2;
    CHECK(threads[number] == threads[first]);
    for (std::size_t earlier = 0; earlier < number; ++earlier) {
      if (devices[earlier] == devices[number]) CHECK(turns[earlier] < turns[number]);
    }
  }
}
