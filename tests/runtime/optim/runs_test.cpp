// SPDX-License-Identifier: Apache-2.0
// How many launches a step takes, and that a warm one allocates nothing.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>

#include "runtime/autograd/node.h"
#include "runtime/nn/linear.h"
#include "runtime/nn/move.h"
#include "runtime/optim/adam.h"
#include "runtime/optim/sgd.h"

namespace {
std::atomic<int> allocations{0};
}

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes);
}
void* operator new(std::size_t bytes) {
  if (void* pointer = operator new(bytes, std::nothrow)) return pointer;
  throw std::bad_alloc();
}
void operator delete(void* pointer) noexcept {
  std::free(pointer);
}
void operator delete(void* pointer, std::size_t) noexcept {
  std::free(pointer);
}

using namespace fanout;

namespace {

struct Net {
  Linear a{3, 5}, b{5, 7};
  void visit(Visitor& member) {
    member("a", a);
    member("b", b);
  }
};

// Records what a step would launch.
struct Recording final : Optimizer {
  explicit Recording(std::vector<Tensor> list, std::int64_t count_limit = kCountsForever)
      : Optimizer("Recording", std::move(list), 0.1, 1, count_limit) {}
  void update(const Run& run) override { elements.push_back(run.elements); }
  std::vector<std::int64_t> step_elements() {
    elements.clear();
    step();
    return elements;
  }
  std::vector<std::int64_t> elements;
};

void give_all(const std::vector<Tensor>& list) {
  for (const Tensor& parameter : list) gradient_sink(parameter).set_present();
}

using Elements = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("a whole flat module is one run, gaps included") {
  Net net;
  to(net, Device(0));
  Recording optimizer(parameters(net));
  give_all(parameters(net));
  // b.bias, b.weight, a.bias, a.weight at multiples of 64 floats; the last one ends at its own size.
  CHECK(optimizer.step_elements() == Elements{3 * 64 + 15});
}

TEST_CASE("a parameter without gradient splits the run, and later a different step count does") {
  Net net;
  to(net, Device(0));
  Recording optimizer(parameters(net)), counts_to_one(parameters(net), 1);
  give_all(parameters(net));
  net.b.weight.clear_grad();
  CHECK(optimizer.step_elements() == Elements{7, 64 + 15});
  CHECK(counts_to_one.step_elements() == Elements{7, 64 + 15});
  give_all(parameters(net));
  CHECK(optimizer.step_elements() == Elements{7, 35, 64 + 15});
  CHECK(counts_to_one.step_elements() == Elements{7, 35, 64 + 15});
  CHECK(optimizer.step_elements() == Elements{7, 35, 64 + 15});
  CHECK(counts_to_one.step_elements() == Elements{3 * 64 + 15});
}

TEST_CASE("parameters that do not lie together are runs of their own, as are those of two devices") {
  Net first, second;
  to(first, Device(0));
  to(second, Device(1));
  std::vector<Tensor> list = parameters(second);
  list.push_back(first.a.weight);
  list.push_back(first.b.weight);  // first.a.bias lies between
  Recording optimizer(list);
  give_all(list);
  CHECK(optimizer.step_elements() == Elements{35, 15, 3 * 64 + 15});
}

// In late mode the platform itself allocates, for what waits.
TEST_CASE("a warm step and a walk over a module allocate nothing", "[eager]") {
  Net net;
  to(net, Device(0));
  const std::vector<Tensor> list = parameters(net);
  Sgd sgd(list, {.learning_rate = 0.1, .momentum = 0.9});
  Adam adam(list);
  const auto step = [&] {
    sgd.zero_grad();
    give_all(list);
    sgd.step();
    adam.step();
  };
  step();
  step();  // the second step is the first one with a former velocity
  const int before = allocations;
  step();
  Visitor nothing;
  ModuleView(net).walk(nothing);
  const int after = allocations;
  CHECK(after == before);
}
