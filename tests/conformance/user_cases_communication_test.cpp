// SPDX-License-Identifier: Apache-2.0
// What users met with threads, failures and the end of the process.
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "runtime/device/context.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/optim/sgd.h"
#include "tests/conformance/user_cases.h"
#include "tests/platform/api/child_process.h"

using namespace fanout;
using namespace fanout::test;
using Catch::Matchers::Contains;

TEST_CASE("1000 reductions finish while another thread allocates and frees device and pinned memory", "[case 61]") {
  const std::vector<Device> devices = devices_of({0, 1, 2, 3});
  Communicator& communicator = Communicator::of(devices);
  std::vector<Tensor> tensors;
  std::vector<const void*> places;
  for (const Device device : devices) {
    tensors.push_back(full({1000}, 1, DType::f64, device));
    places.push_back(tensors.back().raw_data());
  }
  const Tensor result = full({1000}, 0, DType::f64, devices[0]);
  std::atomic<bool> done{false};
  std::atomic<int> rounds{0};
  std::thread allocating([&] {
    while (!done) {
      const Device device = devices[static_cast<std::size_t>(rounds++ % 4)];
      const Tensor on_device = empty({4096}, DType::f64, device);
      const Tensor pinned = empty({4096}, DType::f64, Device::host(), HostMemory::pinned);
      void* plain = nullptr;  // freed with a wait for the whole device
      const DeviceGuard guard(device);
      FANOUT_CHECK(cudaMalloc(&plain, 4096));
      FANOUT_CHECK(cudaFree(plain));
    }
  });
  while (rounds < 4) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) communicator.reduce(places, result.raw_data(), 1000, DType::f64);
  done = true;
  allocating.join();
  communicator.wait_for_collectives();
  CHECK(to_vector<double>(result) == repeated(1000, 4));
}

TEST_CASE("two wrappers on the same devices in two threads both finish 200 steps as if alone", "[case 62]") {
  const auto train_alone = [](int seed, std::vector<std::vector<double>>* weights) {
    Mlp module = [&] {
      static std::mutex one_at_a_time;  // initial values come from one generator
      const std::lock_guard guard(one_at_a_time);
      return mlp(6, 8, 4, Device(0));
    }();
    DataParallel parallel(module, {0, 1});
    Sgd optimizer(parameters(module), {.learning_rate = 0.05, .momentum = 0.9});
    for (int step = 0; step < 200; ++step) {
      optimizer.zero_grad();
      cross_entropy(parallel(numbers({6, 6}, seed + step)), to(labels(6, 4), Device(0))).backward();
      optimizer.step();
    }
    for (const Tensor& parameter : parameters(module)) weights->push_back(values_of(parameter));
  };
  std::vector<std::vector<double>> expected[2], found[2];
  for (int i = 0; i < 2; ++i) train_alone(1000 * i, &expected[i]);
  std::thread other([&] { train_alone(1000, &found[1]); });
  train_alone(0, &found[0]);
  other.join();
  for (int i = 0; i < 2; ++i) CHECK(found[i] == expected[i]);
}

namespace {

// Outlives main: what is left of a program that ends somewhere else.
struct Leftovers {
  Mlp module = mlp(6, 8, 4, Device(0));
  DataParallel<Mlp> parallel{module, {0, 1, 2, 3}, with_mode(ParallelApply::workers)};
};

// Made at its first use, so destroyed after main.
Leftovers& leftovers() {
  static Leftovers global;
  return global;
}

void train_leftovers() {
  Sgd optimizer(parameters(leftovers().module), {.learning_rate = 0.1});
  sum(square(leftovers().parallel(numbers({8, 6})))).backward();
  optimizer.step();
}

struct Exiting {
  Linear layer{6, 4, true, DType::f64};
  void visit(Visitor& member) { member("layer", layer); }
  Tensor operator()(const Tensor& x) const {
    if (x.device() == Device(1)) std::exit(3);
    return layer(x);
  }
};

void require_clean(const ChildResult& child, int exit_status) {
  INFO(child.output);
  CHECK(child.signal == 0);
  CHECK(child.exit_status == exit_status);
  for (const char* text : {"terminate", "fanout:", "failed", "SIG"}) CHECK_THAT(child.output, !Contains(text));
}

}  // namespace

TEST_CASE("child: leave a global wrapper to the end", "[.]") {
  train_leftovers();
}
TEST_CASE("child: exit from a thread", "[.]") {
  train_leftovers();
  std::thread([] { std::exit(0); }).join();
}
TEST_CASE("child: exit from a thread while the main thread trains", "[.]") {
  Mlp module = mlp(6, 8, 4, Device(0));
  DataParallel parallel(module, {0, 1, 2, 3}, with_mode(ParallelApply::workers));
  std::atomic<int> step{0};
  std::thread leaving([&] {
    while (step < 5) std::this_thread::yield();
    std::exit(0);
  });
  for (;; ++step) sum(square(parallel(numbers({8, 6})))).backward();
}
TEST_CASE("child: exit inside a replica", "[.]") {
  Exiting module = seeded_on<Exiting>(Device(0));
  DataParallel parallel(module, {0, 1}, with_mode(ParallelApply::workers));
  (void)parallel(numbers({4, 6}));
}
TEST_CASE("child: leave by an exception that nobody catches", "[.]") {
  train_leftovers();
  std::thread([] { throw std::runtime_error("nobody catches this"); }).join();
}
TEST_CASE("a process with a wrapper ends cleanly after main and by exit from any thread", "[case 64]") {
  require_clean(run_in_child("child: leave a global wrapper to the end"), 0);
  require_clean(run_in_child("child: exit from a thread"), 0);
}
TEST_CASE("exit from inside a replica ends the process with its status", "[case 64]") {
  require_clean(run_in_child("child: exit inside a replica"), 3);
}
TEST_CASE("exit from a thread ends the process while another one trains", "[case 64]") {
  require_clean(run_in_child("child: exit from a thread while the main thread trains"), 0);
}
TEST_CASE("an exception that nobody catches ends the process with its text and no other complaint", "[case 64]") {
  const ChildResult child = run_in_child("child: leave by an exception that nobody catches");
  INFO(child.output);
  CHECK(child.signal == SIGABRT);
  CHECK_THAT(child.output, Contains("nobody catches this") && !Contains("fanout:"));
}

TEST_CASE("a failure of NCCL says which call failed, why in the library's words, and where", "[case 65]") {
  try {
    const Communicator communicator(devices_of({1, 1}));
    FAIL("no exception");
  } catch (const NcclError& error) {
    CHECK(error.code() != ncclSuccess);
    CHECK_THAT(error.what(), Contains("ncclCommInitRankConfig failed: ") && Contains("Duplicate GPU detected") &&
                                 Contains("communicator.cpp:"));
  }
}

namespace {

struct Throwing {
  enum class What { nothing, in_replica_1, in_replicas_1_and_3, in_all_but_0, a_number };
  Linear layer{6, 4, true, DType::f64};
  What what = What::nothing;
  void visit(Visitor& member) { member("layer", layer); }
  Tensor operator()(const Tensor& x) const {
    const int device = x.device().index();  // replicas 0, 1, 2, 3 on devices 4, 2, 0, 6
    const bool one = device == 2, three = device == 6;
    if ((what == What::in_replica_1 && one) || (what == What::in_replicas_1_and_3 && (one || three)) ||
        (what == What::in_all_but_0 && device != 4))
      throw std::out_of_range("row 7");
    if (what == What::a_number && one) throw 7;
    return layer(x);
  }
};

}  // namespace

TEST_CASE("the lowest replica's exception keeps type and words, gets replica and device, and counts the others",
          "[case 67]") {
  for (const ParallelApply mode : all_modes()) {
    Throwing module = seeded_on<Throwing>(Device(4));
    DataParallel parallel(module, {4, 2, 0, 6}, with_mode(mode));
    const Tensor x = numbers({12, 6});
    const auto good_forward = [&] {
      module.what = Throwing::What::nothing;
      CHECK(parallel(x).shape() == Shape{12, 4});
      CHECK(parallel.failures().empty());
    };
    const std::string text = "replica 1 on cuda:2 (input f64 [3, 6]): row 7";
    module.what = Throwing::What::in_replica_1;
    CHECK_THROWS_AS(parallel(x), std::out_of_range);
    CHECK_THROWS_WITH(parallel(x), text);
    good_forward();
    module.what = Throwing::What::in_replicas_1_and_3;
    CHECK_THROWS_AS(parallel(x), std::out_of_range);
    CHECK_THROWS_WITH(parallel(x), text + " (replica 3 failed too)");
    REQUIRE(parallel.failures().size() == 2);
    CHECK(parallel.failures()[1].replica == 3);
    CHECK(parallel.failures()[1].device == Device(6));
    good_forward();
    module.what = Throwing::What::in_all_but_0;
    CHECK_THROWS_WITH(parallel(x), text + " (replicas 2, 3 failed too)");
    good_forward();
  }
}

TEST_CASE("something thrown that is no std::exception arrives as it is, and failures() says whose it was",
          "[case 67]") {
  for (const ParallelApply mode : all_modes()) {
    Throwing module = seeded_on<Throwing>(Device(4));
    module.what = Throwing::What::a_number;
    DataParallel parallel(module, {4, 2, 0, 6}, with_mode(mode));
    int caught = 0;
    try {
      (void)parallel(numbers({12, 6}));
    } catch (const int number) {
      caught = number;
    }
    CHECK(caught == 7);
    REQUIRE(parallel.failures().size() == 1);
    CHECK(parallel.failures()[0].replica == 1);
    CHECK(parallel.failures()[0].device == Device(2));
    CHECK_THAT(parallel.failures()[0].text, Contains("replica 1 on cuda:2 (input f64 [3, 6])"));
    module.what = Throwing::What::nothing;
    CHECK(parallel(numbers({12, 6})).shape() == Shape{12, 4});
  }
}
