// SPDX-License-Identifier: Apache-2.0
// How many launches a step takes.
#include <catch2/catch.hpp>

#include "runtime/nn/move.h"
#include "runtime/optim/optimizer.h"
#include "tests/runtime/optim/small_net.h"

using namespace fanout;
using namespace fanout::test;

namespace {

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
