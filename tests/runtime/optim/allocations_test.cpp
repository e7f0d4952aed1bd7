// SPDX-License-Identifier: Apache-2.0
// A warm step allocates nothing: all that `new` is asked for in this program is counted.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>

#include "runtime/nn/move.h"
#include "runtime/optim/adam.h"
#include "runtime/optim/sgd.h"
#include "tests/runtime/optim/small_net.h"

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
using namespace fanout::test;

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
