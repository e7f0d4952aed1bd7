// SPDX-License-Identifier: Apache-2.0
// How torch splits rows over devices, and what scatter and gather do with each kind of value.
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <variant>

#include "runtime/ops/shape.h"
#include "runtime/parallel/data_parallel.h"
#include "tests/conformance/comparison.h"

using namespace fanout;
using namespace fanout::test;

namespace {

using Sizes = std::vector<std::int64_t>;

std::vector<Device> first_devices(int count) {
  std::vector<Device> devices;
  for (int index = 0; index < count; ++index) devices.emplace_back(index);
  return devices;
}

struct Pair {
  Tensor first, second;
  int number = 0;
  void visit(TensorVisitor& member) {
    member("first", first);
    member("second", second);
  }
};

Tensor on(int device, const Shape& shape, int seed = 1) {
  return numbers_on(Device(device), shape, seed);
}

}  // namespace

TEST_CASE("rows are split as torch splits them, for 0 to 17 rows on 1, 2, 3, 4 and 8 devices") {
  struct Row {
    std::int64_t rows;
    std::array<Sizes, 5> sizes;  // on 1, 2, 3, 4, 8 devices
  };
  const Sizes eight_of_none(8, 0);
  const std::vector<Row> table{
      {0, {{{0}, {0, 0}, {0, 0, 0}, {0, 0, 0, 0}, eight_of_none}}},
      {1, {{{1}, {1}, {1}, {1}, {1}}}},
      {2, {{{2}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}}},
      {3, {{{3}, {2, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}}},
      {4, {{{4}, {2, 2}, {2, 2}, {1, 1, 1, 1}, {1, 1, 1, 1}}}},
      {5, {{{5}, {3, 2}, {2, 2, 1}, {2, 2, 1}, {1, 1, 1, 1, 1}}}},
      {6, {{{6}, {3, 3}, {2, 2, 2}, {2, 2, 2}, {1, 1, 1, 1, 1, 1}}}},
      {7, {{{7}, {4, 3}, {3, 3, 1}, {2, 2, 2, 1}, {1, 1, 1, 1, 1, 1, 1}}}},
      {8, {{{8}, {4, 4}, {3, 3, 2}, {2, 2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 1}}}},
      {9, {{{9}, {5, 4}, {3, 3, 3}, {3, 3, 3}, {2, 2, 2, 2, 1}}}},
      {10, {{{10}, {5, 5}, {4, 4, 2}, {3, 3, 3, 1}, {2, 2, 2, 2, 2}}}},
      {16, {{{16}, {8, 8}, {6, 6, 4}, {4, 4, 4, 4}, {2, 2, 2, 2, 2, 2, 2, 2}}}},
      {17, {{{17}, {9, 8}, {6, 6, 5}, {5, 5, 5, 2}, {3, 3, 3, 3, 3, 2}}}},
  };
  const std::array<int, 5> device_counts{1, 2, 3, 4, 8};
  for (const auto& [rows, sizes] : table) {
    for (std::size_t column = 0; column < sizes.size(); ++column) {
      INFO(rows << " rows on " << device_counts[column] << " devices");
      const Tensor x = numbers({rows, 3}), wide = numbers({2, rows, 3});
      const std::vector<Device> devices = first_devices(device_counts[column]);
      const std::vector<Tensor> pieces = scatter(x, devices);
      const std::vector<Tensor> of_middle = scatter(wide, devices, 1), of_back = scatter(wide, devices, -2);
      REQUIRE(pieces.size() == sizes[column].size());
      REQUIRE(of_middle.size() == pieces.size());
      REQUIRE(of_back.size() == pieces.size());
      std::int64_t begin = 0;
      for (std::size_t index = 0; index < pieces.size(); ++index) {
        const std::int64_t size = sizes[column][index];
        CHECK(pieces[index].shape() == Shape{size, 3});
        CHECK(pieces[index].device() == devices[index]);
        CHECK(values_of(pieces[index]) == values_of(narrow(x, 0, begin, size)));
        CHECK(of_middle[index].shape() == Shape{2, size, 3});
        CHECK(values_of(of_middle[index]) == values_of(narrow(wide, 1, begin, size)));
        CHECK(values_of(of_back[index]) == values_of(of_middle[index]));
        begin += size;
      }
      CHECK(values_of(gather(pieces, Device(0))) == values_of(x));
      CHECK(values_of(gather(of_back, Device::host(), -2)) == values_of(wide));
    }
  }
}

TEST_CASE("a tensor without dimensions cannot be split, and a dimension outside the range is refused with the range") {
  CHECK_THROWS_WITH(scatter(numbers({}), first_devices(2)),
                    "scatter: input has no dimension to split; pass a plain number, or unsplit(x)");
  for (const int dim : {2, -3}) {
    CHECK_THROWS_AS(scatter(numbers({4, 2}), first_devices(2), dim), InvalidArgument);
    CHECK_THROWS_WITH(scatter(numbers({4, 2}), first_devices(2), dim),
                      Catch::Matchers::Contains("expected to be in range of [-2, 1]"));
  }
  CHECK_THROWS_WITH(scatter(numbers({4, 2}), {}), "scatter: expected at least one device to scatter to");
  CHECK_THROWS_WITH(scatter(Tensor(), first_devices(2)), "scatter: input is undefined");
}

TEST_CASE("scatter splits the tensors in a container of any type and copies the rest to each piece") {
  const std::vector<Device> four = first_devices(4);
  const Tensor x = numbers({2, 3}, 1), y = numbers({2}, 2);  // two pieces on four devices
  const auto row = [](const Tensor& tensor, std::int64_t index) { return values_of(narrow(tensor, 0, index, 1)); };

  const auto tuples = scatter(std::tuple(x, 5, std::string("text"), y), four);
  const auto lists = scatter(std::vector<Tensor>{x, y}, four);
  const auto maps = scatter(std::map<std::string, Tensor>{{"x", x}, {"y", y}}, four);
  const auto structs = scatter(Pair{x, y, 7}, four);
  const auto some = scatter(std::pair(std::optional<Tensor>(x), std::optional<Tensor>()), four);
  const auto either = scatter(std::variant<Tensor, int>(x), four);
  const auto deep = scatter(std::map<int, std::vector<std::pair<int, Tensor>>>{{3, {{1, x}, {2, y}}}}, four);
  REQUIRE(tuples.size() == 2);
  REQUIRE(lists.size() == 2);
  REQUIRE(maps.size() == 2);
  REQUIRE(structs.size() == 2);
  REQUIRE(some.size() == 2);
  REQUIRE(either.size() == 2);
  REQUIRE(deep.size() == 2);
  for (std::int64_t index = 0; index < 2; ++index) {
    const auto i = static_cast<std::size_t>(index);
    CHECK(values_of(std::get<0>(tuples[i])) == row(x, index));
    CHECK(std::get<0>(tuples[i]).device() == four[i]);
    CHECK(std::get<1>(tuples[i]) == 5);
    CHECK(std::get<2>(tuples[i]) == "text");
    CHECK(values_of(std::get<3>(tuples[i])) == row(y, index));
    CHECK(values_of(lists[i][1]) == row(y, index));
    CHECK(values_of(maps[i].at("x")) == row(x, index));
    CHECK(values_of(structs[i].second) == row(y, index));
    CHECK(structs[i].number == 7);
    CHECK(values_of(*some[i].first) == row(x, index));
    CHECK_FALSE(some[i].second);
    CHECK(values_of(std::get<Tensor>(either[i])) == row(x, index));
    CHECK(deep[i].at(3)[1].first == 2);
    CHECK(values_of(deep[i].at(3)[1].second) == row(y, index));
  }
}

TEST_CASE("what holds no tensor to split goes whole to each device") {
  const std::vector<Device> three = first_devices(3);
  CHECK(scatter(5, three) == std::vector<int>{5, 5, 5});
  CHECK(scatter(std::string("text"), three) == std::vector<std::string>(3, "text"));
  CHECK(scatter(std::vector<Tensor>(), three).size() == 3);
  CHECK(scatter(std::map<std::string, Tensor>(), three).size() == 3);
  CHECK(scatter(std::tuple<>(), three).size() == 3);
  CHECK(scatter(std::optional<Tensor>(), three).size() == 3);
  const std::vector<Unsplit<Tensor>> whole = scatter(unsplit(numbers({2, 3})), three);
  REQUIRE(whole.size() == 3);
  for (std::size_t index = 0; index < 3; ++index) {
    CHECK(whole[index].value.device() == three[index]);
    CHECK(values_of(whole[index].value) == values_of(numbers({2, 3})));
  }
}

TEST_CASE("tensors of different sizes along the split dimension are refused by path, where torch drops rows silently") {
  const Tensor seven = numbers({7, 2}), six = numbers({6});
  CHECK_THROWS_WITH(scatter(std::tuple(seven, six), first_devices(2)),
                    "scatter: input[0] has shape [7, 2] and input[1] has shape [6]; both are split along dimension 0 "
                    "and must have the same size there (unsplit(x) gives every replica the whole)");
  CHECK_THROWS_AS(scatter(std::map<std::string, Tensor>{{"a", seven}, {"b", six}}, first_devices(2)), InvalidArgument);
}

TEST_CASE("gather joins every tensor in a container of any type, what is no tensor comes from the replicas unchanged") {
  const Device host = Device::host();
  const auto pair_of = [](int device) { return Pair{on(device, {2}, device), on(device, {1, 3}, device), 7}; };
  const Pair joined = gather(std::vector<Pair>{pair_of(0), pair_of(1)}, host);
  CHECK(joined.first.shape() == Shape{4});
  CHECK(joined.second.shape() == Shape{2, 3});
  CHECK(joined.number == 7);

  using Map = std::map<std::string, std::vector<Tensor>>;
  const Map map =
      gather(std::vector<Map>{{{"a", {on(0, {1}, 5)}}, {"b", {}}}, {{"a", {on(1, {2}, 6)}}, {"b", {}}}}, host);
  CHECK(map.at("a")[0].shape() == Shape{3});
  CHECK(map.at("b").empty());

  using Maybe = std::optional<Tensor>;
  CHECK_FALSE(gather(std::vector<Maybe>{{}, {}}, host));
  CHECK(gather(std::vector<Maybe>{on(0, {1}), on(1, {1})}, host)->shape() == Shape{2});

  using Mixed = std::tuple<Tensor, int, double, bool, std::string, std::vector<int>>;
  const Mixed mixed =
      gather(std::vector<Mixed>{{on(0, {1}), 1, 2.5, true, "text", {1, 2}}, {on(1, {1}), 1, 2.5, true, "text", {1, 2}}},
             Device(1));
  CHECK(std::get<0>(mixed).device() == Device(1));
  CHECK(std::get<1>(mixed) == 1);
  CHECK(std::get<4>(mixed) == "text");
  CHECK(gather(std::vector<int>{3, 3, 3}, host) == 3);
}

TEST_CASE("what gather cannot join is refused with its path and both replicas") {
  using Item = std::pair<Tensor, int>;
  using List = std::vector<Tensor>;
  using Map = std::map<std::string, Tensor>;
  using Either = std::variant<Tensor, int>;
  const Device host = Device::host();
  CHECK_THROWS_WITH(gather(std::vector<Item>{{on(0, {1}), 1}, {on(1, {1}), 2}}, host),
                    "gather: output[1] differs between replica 0 on cuda:0 and replica 1 on cuda:1; only tensors are "
                    "joined: return a tensor");
  CHECK_THROWS_WITH(gather(std::vector<List>{{on(0, {1}), on(0, {1})}, {on(1, {1}), on(1, {1}), on(1, {1})}}, host),
                    "gather: output has 2 elements in replica 0 on cuda:0 and 3 in replica 1 on cuda:1; all replicas "
                    "must return the same structure");
  CHECK_THROWS_WITH(gather(std::vector<Map>{{{"a", on(0, {1})}}, {{"b", on(1, {1})}}}, host),
                    "gather: output has key \"a\" in replica 0 on cuda:0 and \"b\" in replica 1 on cuda:1; all "
                    "replicas must return the same structure");
  CHECK_THROWS_WITH(gather(std::vector<Map>{{{"a", on(0, {2, 4})}}, {{"a", on(1, {2, 3})}}}, host),
                    "gather: output[\"a\"] has shape [2, 4] (f64) in replica 0 on cuda:0 and [2, 3] (f64) in replica "
                    "1 on cuda:1; dtype and all dimensions but 0 must agree");
  CHECK_THROWS_AS(gather(std::vector<Tensor>{on(0, {}), on(1, {1})}, host), InvalidArgument);
  CHECK_THROWS_AS(gather(std::vector<Either>{on(0, {1}), 1}, host), InvalidArgument);
  CHECK_THROWS_AS(gather(std::vector<Tensor>{on(0, {1}), numbers_of<float>({1}, Device(1))}, host), InvalidArgument);
  CHECK_THROWS_AS(gather(std::vector<Tensor>{on(0, {2}), Tensor()}, host), InvalidArgument);
  CHECK_THROWS_WITH(gather(std::vector<Tensor>(), host), "gather: expected at least one output to gather from");
}

TEST_CASE("one number a replica becomes a vector along whatever dimension is asked for, and one output is moved") {
  for (const int dim : {0, 1, -1}) {
    const Tensor joined = gather(
        std::vector<Tensor>{full({}, 1, DType::f64, Device(0)), full({}, 2, DType::f64, Device(1))}, Device(0), dim);
    CHECK(values_of(joined) == std::vector<double>{1, 2});
  }
  const Tensor single = gather(std::vector<Tensor>{on(1, {2, 2})}, Device(3));
  CHECK(single.device() == Device(3));
  CHECK(gather(std::vector<Tensor>{full({}, 1, DType::f64, Device(1))}, Device(0)).shape() == Shape{1});
}

TEST_CASE("a tensor without elements keeps its shape on every device, where torch's broadcast flattens it") {
  struct Empty {
    Parameter nothing{Shape{0, 4}, DType::f64};
    Linear layer{2, 2, true, DType::f64};
    void visit(Visitor& member) {
      member("nothing", nothing);
      member("layer", layer);
    }
  };
  Empty module = seeded_on<Empty>(Device(0));
  for (const Empty& replica : replicate(module, first_devices(3))) CHECK(replica.nothing.shape() == Shape{0, 4});
}
