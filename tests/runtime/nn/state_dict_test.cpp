// SPDX-License-Identifier: Apache-2.0
// Names in state_dict, and strict loading.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/runtime/nn/example_modules.h"

using namespace fanout;
using namespace fanout::testing;
using Catch::Matchers::Contains;
using Names = std::vector<std::string>;

TEST_CASE("state_dict has torch's names, buffers included and tied weights under each name") {
  CHECK(names(state_dict(Tied())) == Names{"in.weight", "in.bias", "out.weight", "out.bias"});
  CHECK(names(state_dict(Sequential(Linear(2, 3, false), BatchNorm1d(3), LayerNorm(3, {.affine = false})))) ==
        Names{"0.weight", "1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked"});
}

TEST_CASE("state_dict shares the module's memory and is outside the graph") {
  Linear layer(2, 2);
  const StateDict state = state_dict(layer);
  CHECK(state[0].tensor.raw_data() == layer.weight.raw_data());
  CHECK_FALSE(state[0].tensor.requires_grad());
}

TEST_CASE("load_state_dict copies values between devices, in any order, and counts the writes") {
  Residual from, into;
  to(into, Device(1));
  StateDict state = state_dict(from);
  std::reverse(state.begin(), state.end());
  const std::uint32_t version = into.up.weight.version();
  load_state_dict(into, state);
  CHECK(into.up.weight.version() > version);
  CHECK(into.up.weight.device() == Device(1));
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(to_vector<float>(parameters(into)[i]) == to_vector<float>(parameters(from)[i]));
  load_state_dict(into, state_dict(into));
}

TEST_CASE("load_state_dict lists everything that differs and then changes nothing") {
  Residual module;
  const std::vector<float> before = to_vector<float>(module.down.weight);
  StateDict state = state_dict(clone(module));
  state[0].name = "up.wait";                                 // up.weight is missing
  state[1].tensor = zeros({4}, DType::f32, Device::host());  // up.bias has 16
  state[3].tensor = zeros({8}, DType::f64, Device::host());  // down.bias is f32
  state.push_back(state[2]);                                 // down.weight twice
  state[2].tensor = zeros({8, 16}, DType::f32, Device::host());
  CHECK_THAT(thrown_text([&] { load_state_dict(module, state); }),
             Contains("Residual") && Contains("missing: up.weight") && Contains("unexpected: up.wait") &&
                 Contains("given twice: down.weight") && Contains("up.bias: f32 [4] on cpu in the state, f32 [16]") &&
                 Contains("down.bias: f64 [8]"));
  CHECK(to_vector<float>(module.down.weight) == before);
}

TEST_CASE("names with the prefix of a wrapped module are explained") {
  Linear layer(2, 2);
  StateDict state = state_dict(layer);
  for (NamedTensor& entry : state) entry.name = "module." + entry.name;
  CHECK_THAT(thrown_text([&] { load_state_dict(layer, state); }), Contains("take the prefix off"));
}
