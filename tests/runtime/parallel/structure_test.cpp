// SPDX-License-Identifier: Apache-2.0
// What counts as a tensor inside a value, and how its place is named.
#include "runtime/parallel/structure.h"

#include <catch2/catch.hpp>
#include <map>
#include <unordered_map>

#include "tests/runtime/parallel/test_nets.h"

using namespace fanout;
using namespace fanout::test;

namespace {

struct Prediction {
  Tensor logits;
  std::vector<Tensor> aux;
  void visit(TensorVisitor& member) {
    member("logits", logits);
    member("aux", aux);
  }
};

// Paths of all tensors of `value`; those to be given whole have a `!` behind them.
template <class T>
std::vector<std::string> paths(T value) {
  struct Listing final : TensorVisitor {
    Listing() : TensorVisitor("input") {}
    void tensor(Tensor&, bool whole) override { found.push_back(path() + (whole ? "!" : "")); }
    std::vector<std::string> found;
  } visitor;
  visitor.walk(value);
  return visitor.found;
}

using Paths = std::vector<std::string>;

struct Hiding {
  Tensor tensor;
  int number = 0;
};
struct HidingDeep {
  int number = 0;
  Hiding inside;
};
struct Plain {
  int number = 0;
  std::string text;
};

}  // namespace

TEST_CASE("every kind of container is walked through, and its tensors have paths as in source code") {
  const Tensor x = numbers({2});
  CHECK(paths(x) == Paths{"input"});
  CHECK(paths(std::tuple{x, 5, std::pair{x, x}}) == Paths{"input[0]", "input[2][0]", "input[2][1]"});
  CHECK(paths(std::array{x, x}) == Paths{"input[0]", "input[1]"});
  CHECK(paths(std::vector<std::vector<Tensor>>{{x}, {}, {x, x}}) == Paths{"input[0][0]", "input[2][0]", "input[2][1]"});
  CHECK(paths(std::map<std::string, Tensor>{{"b", x}, {"a", x}}) == Paths{"input[\"a\"]", "input[\"b\"]"});
  CHECK(paths(std::unordered_map<int, Tensor>{{7, x}}) == Paths{"input[7]"});
  CHECK(paths(std::map<double, Tensor>{{0.5, x}}) == Paths{"input[...]"});
  CHECK(paths(std::optional<Tensor>{x}) == Paths{"input"});
  CHECK(paths(std::optional<Tensor>{}).empty());
  CHECK(paths(std::variant<int, Tensor>{x}) == Paths{"input"});
  CHECK(paths(std::variant<int, Tensor>{3}).empty());
  CHECK(paths(Prediction{x, {x, x}}) == Paths{"input.logits", "input.aux[0]", "input.aux[1]"});
  CHECK(paths(std::vector{Prediction{x, {}}}) == Paths{"input[0].logits"});
  CHECK(paths(std::tuple{std::string("text"), 1.5, std::vector<int>{1}, Plain{}}).empty());
}

TEST_CASE("unsplit marks all tensors inside, and reads as the value") {
  const Tensor x = numbers({2});
  CHECK(paths(unsplit(x)) == Paths{"input!"});
  CHECK(paths(std::tuple{x, unsplit(Prediction{x, {x}}), x}) ==
        Paths{"input[0]", "input[1].logits!", "input[1].aux[0]!", "input[2]"});
  const Unsplit<Tensor> marked = unsplit(x);
  const Tensor& whole = marked;
  CHECK(whole.raw_data() == x.raw_data());
}

TEST_CASE("a struct that holds tensors without naming them is recognised at compile time") {
  STATIC_REQUIRE(detail::hides_tensors<Hiding>());
  STATIC_REQUIRE(detail::hides_tensors<HidingDeep>());
  STATIC_REQUIRE_FALSE(detail::hides_tensors<Plain>());
  STATIC_REQUIRE_FALSE(detail::hides_tensors<Prediction>());
  STATIC_REQUIRE(detail::holds_tensors<Prediction>());
  STATIC_REQUIRE(detail::holds_tensors<std::map<int, std::optional<Tensor>>>());
  STATIC_REQUIRE_FALSE(detail::holds_tensors<std::string>());
  STATIC_REQUIRE(detail::comparable<std::vector<int>>());
  STATIC_REQUIRE_FALSE(detail::comparable<std::vector<Hiding>>());
}

TEST_CASE("values that lie too deep in each other are refused with the path") {
  struct Deep {
    std::vector<Deep> inside;
    Tensor tensor;
    void visit(TensorVisitor& member) {
      member("inside", inside);
      member("tensor", tensor);
    }
  };
  Deep deep;
  for (int level = 0; level < 20; ++level) deep = Deep{{deep}, numbers({1})};
  CHECK_THROWS_WITH(paths(deep), Catch::StartsWith("values lie more than 32 deep in each other: input.inside[0]."));
}
