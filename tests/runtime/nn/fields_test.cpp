// SPDX-License-Identifier: Apache-2.0
// Finding members that visit leaves out.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <map>

#include "tests/runtime/nn/example_modules.h"

using namespace fanout;
using namespace fanout::testing;

namespace {

struct Base {
  Linear inherited{2, 2};
};
struct WithBase : Base {
  Linear own{2, 2};
  void visit(Visitor&) {}
};
struct WithArray {
  Linear layers[2] = {Linear(2, 2), Linear(2, 2)};
  float scale = 1;
  void visit(Visitor&) {}
};
struct WithPlainMembers {
  std::string note = "x";
  std::vector<float> table;
  std::map<int, double> map;
  std::function<float(float)> function;
  int count = 0;
  Tensor cache;
  const float scale = 2;
  double* pointer = nullptr;
  enum class Kind { a, b } kind = Kind::a;
  Linear layer{2, 2};
  std::array<float, 3> weights{};
  void visit(Visitor& member) { member("layer", layer); }
};
struct WithReference {
  Linear layer{2, 2};
  Linear& again = layer;
  void visit(Visitor& member) { member("layer", layer); }
};
struct Sixteen {
  Mode a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p;
  void visit(Visitor& v) {
    for (Mode* mode : {&a, &b, &c, &d, &e, &f, &g, &h, &i, &j, &k, &l, &m, &n, &o}) v("", *mode);
  }
};
struct Seventeen {
  Mode a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q;
  void visit(Visitor&) {}
};
struct Outer {
  Relu relu;
  Forgetful inner;
  std::vector<Forgetful> several{1};
  Sequential net{Linear(8, 8), Forgetful()};
  Buffer forgotten{Shape{1}};
  void visit(Visitor& member) {
    member("inner", inner);
    member("several", several);
    member("net", net);
  }
};
struct ForgetsUnset {
  Linear layer;
  void visit(Visitor&) {}
};

}  // namespace

TEST_CASE("members of aggregates are counted, those of other structs are not") {
  using detail::field_count;
  STATIC_REQUIRE(field_count<Residual>() == 3);
  STATIC_REQUIRE(field_count<Stack>() == 3);
  STATIC_REQUIRE(field_count<Relu>() == 0);
  STATIC_REQUIRE(field_count<Tied>() == 0);
  STATIC_REQUIRE(field_count<WithBase>() == 0);
  STATIC_REQUIRE(field_count<WithArray>() == 0);
  STATIC_REQUIRE(field_count<WithPlainMembers>() == 11);
  STATIC_REQUIRE(field_count<Sixteen>() == 16);
  STATIC_REQUIRE(field_count<Seventeen>() == 0);
}

TEST_CASE("a module that names all members passes, plain members are not asked for") {
  CHECK(unvisited(Residual()) == "");
  CHECK(unvisited(Stack()) == "");
  CHECK(unvisited(Tied()) == "");
  CHECK(unvisited(WithPlainMembers()) == "");
  CHECK(unvisited(Linear(2, 2, false)) == "");
}

TEST_CASE("every member left out is found, at any depth and behind type erasure") {
  CHECK(unvisited(Forgetful()) == "member 2 (fanout::Linear)");
  CHECK(unvisited(Sixteen()) == "member 16 (fanout::Mode)");
  CHECK(unvisited(ForgetsUnset()) == "member 1 (fanout::Linear)");
  CHECK(unvisited(Outer()) ==
        "member 2: member 2 (fanout::Linear), member 3: element 0: member 2 (fanout::Linear), "
        "member 4: element 1: member 2 (fanout::Linear), member 5 (fanout::Buffer)");
}

TEST_CASE("structs whose members cannot be listed pass") {
  CHECK(unvisited(ForgetfulClass()) == "");
  CHECK(unvisited(WithBase()) == "");
  CHECK(unvisited(WithArray()) == "");
  CHECK(unvisited(Seventeen()) == "");
  CHECK(unvisited(WithReference()) == "");
}
