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

namespace {

// Has children whose names look like a wrapper's.
struct Misleading {
  Linear module{2, 3}, my_module{3, 2};
  void visit(Visitor& member) {
    member("module", module);
    member("my_module", my_module);
  }
};

// Holds a wrapper that passes its module's names through, as DataParallel does.
struct Passing {
  Linear inner{2, 3};
  void visit(Visitor& member) { inner.visit(member); }
};
template <class Encoder>
struct Bigger {
  Encoder enc;
  Linear head;
  void visit(Visitor& member) {
    member("enc", enc);
    member("head", head);
  }
};

template <class From, class Into>
bool same_values(const From& from, const Into& into) {
  const StateDict expected = state_dict(from), actual = state_dict(into);
  if (names(expected) != names(actual)) return false;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (to_vector<float>(expected[i].tensor) != to_vector<float>(actual[i].tensor)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a state that was saved from a wrapper loads into the bare module, and the caller is told") {
  Residual from, into;
  const LoadedState loaded = load_state_dict(into, add_prefix(state_dict(from), "module."));
  CHECK(loaded.prefix_removed);
  CHECK(same_values(from, into));
  CHECK_FALSE(load_state_dict(into, state_dict(from)).prefix_removed);
}

TEST_CASE("add_prefix gives the names that a wrapper of torch wants, and remove_prefix takes one level off") {
  const StateDict bare = state_dict(Linear(2, 3)), wrapped = add_prefix(bare, "module.");
  CHECK(names(wrapped) == Names{"module.weight", "module.bias"});
  CHECK(wrapped[0].tensor.raw_data() == bare[0].tensor.raw_data());
  CHECK(names(remove_prefix(add_prefix(wrapped, "module."), "module.")) == names(wrapped));
  CHECK(names(remove_prefix(wrapped, "module.")) == names(bare));
}

TEST_CASE("a model's own module. and my_module. names survive both ways") {
  Misleading from, into, again;
  const Names own{"module.weight", "module.bias", "my_module.weight", "my_module.bias"};
  CHECK(names(remove_prefix(add_prefix(state_dict(from), "module."), "module.")) == own);
  CHECK_FALSE(load_state_dict(into, state_dict(from)).prefix_removed);
  CHECK(same_values(from, into));
  CHECK(load_state_dict(again, add_prefix(state_dict(from), "module.")).prefix_removed);
  CHECK(same_values(from, again));
}

TEST_CASE("a wrapped child has the names of the unwrapped one, decided by the tree and not by text") {
  Bigger<Linear> from{Linear(2, 3), Linear(3, 2)};
  Bigger<Passing> into{Passing(), Linear(3, 2)};
  CHECK(names(state_dict(into)) == Names{"enc.weight", "enc.bias", "head.weight", "head.bias"});
  CHECK_FALSE(load_state_dict(into, state_dict(from)).prefix_removed);
  CHECK(same_values(from, into));
  StateDict inside = state_dict(from);
  for (std::size_t i = 0; i < 2; ++i) inside[i].name.insert(4, "module.");
  CHECK_THAT(thrown_text([&] { load_state_dict(into, inside); }), Contains("unexpected: enc.module.weight"));
}

TEST_CASE("a prefix comes off all names or none, and at most once") {
  Linear layer(2, 3);
  const std::vector<float> before = to_vector<float>(layer.weight);
  StateDict some = add_prefix(state_dict(Linear(2, 3)), "module.");
  some[1].name = "bias";
  CHECK_THAT(thrown_text([&] { remove_prefix(some, "module."); }),
             Contains("\"bias\" does not begin with \"module.\"") && Contains("all names or none"));
  CHECK_THAT(thrown_text([&] { remove_prefix({{"module.", layer.weight}}, "module."); }), Contains("\"module.\""));
  CHECK_THAT(thrown_text([&] { load_state_dict(layer, some); }), Contains("missing: weight") &&
                                                                     Contains("unexpected: module.weight") &&
                                                                     Contains("remove_prefix(state, \"module.\")"));
  const StateDict twice = add_prefix(add_prefix(state_dict(Linear(2, 3)), "module."), "module.");
  CHECK_THAT(thrown_text([&] { load_state_dict(layer, twice); }), Contains("unexpected: module.module.weight"));
  CHECK_THAT(thrown_text([&] { load_state_dict(layer, add_prefix(state_dict(Linear(2, 4)), "module.")); }),
             Contains("(its names without \"module.\")") && Contains("weight: f32 [4, 2] on cpu in the state"));
  CHECK(to_vector<float>(layer.weight) == before);
}
