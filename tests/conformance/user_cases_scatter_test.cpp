// SPDX-License-Identifier: Apache-2.0
// What users met with shapes: batches that do not divide, outputs that do not join, memory with gaps.
#include <catch2/catch.hpp>
#include <map>
#include <mutex>
#include <tuple>

#include "runtime/comm/comm.h"
#include "runtime/ops/arithmetic.h"
#include "tests/conformance/user_cases.h"

using namespace fanout;
using namespace fanout::test;
using Catch::Matchers::Contains;

namespace {

using Sizes = std::vector<std::int64_t>;

// A linear layer that notes how many rows each device got.
struct Counting {
  Linear layer;
  std::map<int, std::int64_t>* rows;
  std::mutex* lock;
  void visit(Visitor& member) { member("layer", layer); }
  Tensor operator()(const Tensor& x) const {
    {
      const std::lock_guard guard(*lock);
      (*rows)[x.device().index()] += x.size(0);
    }
    return layer(x);
  }
};

// On `device`, with the strides of `x`, whose storage is copied whole.
Tensor strided_copy_on(Device device, const Tensor& x) {
  const std::int64_t count = 48;
  const Tensor storage = to(strided_view(x, Shape{count}, Shape{1}, 0), device);
  return strided_view(storage, x.shape(), x.strides(), 0);
}

std::vector<int> first_ids(int count) {
  std::vector<int> ids;
  for (int id = 0; id < count; ++id) ids.push_back(id);
  return ids;
}

}  // namespace

TEST_CASE("9 rows on 4 devices are 3, 3, 3 in order, gradients are the batch's, and the fourth device runs nothing",
          "[case 14]") {
  std::mutex lock;
  std::map<int, std::int64_t> rows;
  Counting module{ones_linear(3, 2, Device(0)), &rows, &lock};
  DataParallel parallel(module, {0, 1, 2, 3});
  const Tensor y = parallel(numbered_rows(9, 3));
  std::vector<double> expected;
  for (int row = 0; row < 9; ++row) expected.insert(expected.end(), 2, 3.0 * row);
  CHECK(values_of(y) == expected);
  CHECK(rows == std::map<int, std::int64_t>{{0, 3}, {1, 3}, {2, 3}});
  CHECK(parallel.piece_sizes() == Sizes{3, 3, 3, 0});
  sum(y).backward();
  CHECK(values_of(module.layer.weight.grad()) == repeated(6, 36));  // 0 + 1 + … + 8
  CHECK(values_of(module.layer.bias.grad()) == repeated(2, 9));
}

TEST_CASE("batches that leave devices idle give the right rows and gradients", "[case 14]") {
  struct Batch {
    std::int64_t rows;
    int devices;
    Sizes sizes;
  };
  for (const auto& [rows, devices, sizes] :
       {Batch{36, 7, {6, 6, 6, 6, 6, 6, 0}}, Batch{3, 8, {1, 1, 1, 0, 0, 0, 0, 0}}, Batch{1, 2, {1, 0}}}) {
    Linear module = ones_linear(3, 2, Device(0));
    DataParallel parallel(module, first_ids(devices));
    const Tensor y = parallel(numbered_rows(rows, 3));
    CHECK(parallel.piece_sizes() == sizes);
    CHECK(values_of(narrow(y, 0, rows - 1, 1)) == repeated(2, 3.0 * static_cast<double>(rows - 1)));
    sum(y).backward();
    CHECK(values_of(module.weight.grad()) == repeated(6, static_cast<double>(rows * (rows - 1) / 2)));
    CHECK(values_of(module.bias.grad()) == repeated(2, static_cast<double>(rows)));
  }
}

TEST_CASE("no piece is larger than the ceiling of rows / devices, and joined pieces are the input bit for bit",
          "[case 16]") {
  for (const auto& [rows, sizes] :
       std::map<std::int64_t, Sizes>{{38, {5, 5, 5, 5, 5, 5, 5, 3}}, {31, {4, 4, 4, 4, 4, 4, 4, 3}}}) {
    const Tensor x = numbers({rows, 3});
    const std::vector<Tensor> pieces = scatter(x, devices_of(first_ids(8)));
    Sizes found;
    for (const Tensor& piece : pieces) found.push_back(piece.size(0));
    CHECK(found == sizes);
    CHECK(values_of(gather(pieces, Device::host())) == values_of(x));
  }
}

namespace {

// The mean of a linear layer over samples that are the rows of x, or its columns.
struct MeanLoss {
  Linear layer{2, 2, true, DType::f64};
  int dim = 0;
  void visit(Visitor& member) { member("layer", layer); }
  Tensor operator()(const Tensor& x) const { return mean(layer(dim == 0 ? x : transpose(x))); }
};

// Scores and a state whose batch is dimension 1, as recurrent layers return it.
struct Recurrent {
  Linear layer{3, 4, true, DType::f64};
  void visit(Visitor& member) { member("layer", layer); }
  std::tuple<Tensor, Tensor> operator()(const Tensor& x) const {
    const Tensor scores = layer(x), state = reshape(scores, {1, x.size(0), 4});
    return {scores, concat({state, state}, 0)};  // [b, 4], [2, b, 4]
  }
};

struct Squeezing {
  Linear layer{3, 2, true, DType::f64};
  void visit(Visitor& member) { member("layer", layer); }
  Tensor operator()(const Tensor& x) const {
    const Tensor y = layer(x);
    return y.size(0) == 1 ? reshape(y, {2}) : y;
  }
};

}  // namespace

TEST_CASE("losses of rank 0 become a vector in device order along any dim, but one configured device keeps rank 0",
          "[case 17]") {
  for (const int dim : {0, 1}) {
    MeanLoss module = seeded_on<MeanLoss>(Device(1)), alone = seeded_on<MeanLoss>(Device(1));
    module.dim = alone.dim = dim;
    DataParallelOptions options;
    options.dim = dim;
    DataParallel parallel(module, {1, 0}, options), single(module, {1}, options);
    const Tensor x = dim == 0 ? numbers({4, 2}) : numbers({2, 4});
    const Tensor losses = parallel(x), here = to(x, Device(1));
    REQUIRE(losses.shape() == Shape{2});
    const Tensor first = alone(narrow(here, dim, 0, 2)), second = alone(narrow(here, dim, 2, 2));
    CHECK(largest_difference(values_of(losses), {item(first), item(second)}) < kTolerance);
    sum(losses).backward();
    (first + second).backward();
    CHECK(gradient_difference(module, alone) < kTolerance);
    CHECK(parallel(narrow(x, dim, 0, 1)).shape() == Shape{1});  // two configured, one used
    CHECK(single(x).shape() == Shape{});
  }
}

TEST_CASE(
    "an output with the batch in another dimension is named where it cannot be joined, and joined where it can be "
    "along dim",
    "[case 19]") {
  Recurrent module = seeded_on<Recurrent>(Device(0));
  DataParallel parallel(module, {0, 1});
  CHECK_THROWS_WITH(
      parallel(numbers({7, 3})),
      "gather: output[1] has shape [2, 4, 4] (f64) in replica 0 on cuda:0 and [2, 3, 4] (f64) in replica 1 "
      "on cuda:1; dtype and all dimensions but 0 must agree");
  const auto [scores, state] = parallel(numbers({8, 3}));
  CHECK(scores.shape() == Shape{8, 4});
  CHECK(state.shape() == Shape{4, 4, 4});
}

TEST_CASE("a piece of one row that lost its batch dimension is reported with its replica", "[case 20]") {
  Squeezing module = seeded_on<Squeezing>(Device(0));
  DataParallel parallel(module, {0, 1, 2, 3});
  CHECK_THROWS_WITH(
      parallel(numbers({10, 3})),  // 3, 3, 3, 1
      "gather: output has shape [3, 2] (f64) in replica 0 on cuda:0 and [2] (f64) in replica 3 on cuda:3; "
      "dtype and all dimensions but 0 must agree; replica 3 had 1 row: a squeeze may have removed its "
      "batch dimension");
  CHECK(parallel(numbers({12, 3})).shape() == Shape{12, 2});
}

TEST_CASE("no rows give no rows, a sum of 0 and gradients of 0", "[case 22]") {
  Mlp module = mlp(3, 4, 2, Device(1));
  DataParallel parallel(module, {1, 0, 2, 3});
  const Tensor y = parallel(numbers({0, 3}));
  CHECK(y.shape() == Shape{0, 2});
  CHECK(y.device() == Device(1));
  const Tensor loss = sum(y);
  CHECK(item(loss) == 0);
  loss.backward();
  for (const Tensor& parameter : parameters(module)) {
    REQUIRE(parameter.grad().defined());
    CHECK(values_of(parameter.grad()) == repeated(static_cast<std::size_t>(parameter.elements()), 0));
  }
}

TEST_CASE("a buffer and a parameter without elements keep their shapes on every replica", "[case 22]") {
  struct WithEmpty {
    Linear layer{3, 2, true, DType::f64};
    Buffer nothing{Shape{0}, DType::f64};
    Parameter no_rows{Shape{0, 4}, DType::f64};
    void visit(Visitor& member) {
      member("nothing", nothing);
      member("layer", layer);
      member("no_rows", no_rows);
    }
    Tensor operator()(const Tensor& x) const {
      const bool kept = nothing.shape() == Shape{0} && no_rows.shape() == Shape{0, 4} && nothing.device() == x.device();
      return layer(x) + (kept ? 1.0 : 0.0);
    }
  };
  WithEmpty module = seeded_on<WithEmpty>(Device(0));
  WithEmpty alone = seeded_on<WithEmpty>(Device(0));
  DataParallel parallel(module, {0, 1, 2, 3});
  const Tensor x = numbers({8, 3}), y = parallel(x), expected = alone(to(x, Device(0)));
  CHECK(largest_difference(values_of(y), values_of(expected)) < kTolerance);
  sum(y).backward();
  sum(expected).backward();
  CHECK(gradient_difference(module, alone) < kTolerance);
}

TEST_CASE("transposed and strided tensors are scattered, reduced and gathered as their dense copies are", "[case 23]") {
  const Tensor wide = numbers({6, 8}), dense = numbers({8, 6});
  const Tensor transposed = transpose(wide), columns = strided_view(dense, Shape{8, 3}, Shape{6, 2}, 0);
  const std::vector<Device> devices = devices_of({0, 1, 2});
  for (const Tensor& x : {transposed, columns}) {
    const Shape strides = x.strides();
    const Tensor copy = contiguous(x);
    for (const Device home : {Device::host(), Device(1)}) {
      const std::vector<Tensor> pieces = scatter(home.is_host() ? x : strided_copy_on(home, x), devices);
      const std::vector<Tensor> expected = scatter(copy, devices);
      for (std::size_t i = 0; i < 3; ++i) CHECK(values_of(pieces[i]) == values_of(expected[i]));
    }
    CHECK(x.strides() == strides);
    const std::vector<Tensor> strided{strided_copy_on(Device(0), x), strided_copy_on(Device(1), x)};
    const std::vector<Tensor> packed{to(copy, Device(0)), to(copy, Device(1))};
    CHECK_FALSE(strided[0].is_contiguous());
    CHECK(values_of(gather(strided, Device(0))) == values_of(gather(packed, Device(0))));
    CHECK(values_of(comm::reduce_add(strided, Device(0))) == values_of(comm::reduce_add(packed, Device(0))));
  }
}

TEST_CASE("a gradient that arrives as a transposed view is summed as on one device", "[case 23]") {
  struct ByTranspose {
    Parameter weight{numbers({4, 6})};
    void visit(Visitor& member) { member("weight", weight); }
    Tensor operator()(const Tensor& x) const { return x * transpose(weight); }
  };
  ByTranspose module, alone;
  to(module, Device(0));
  to(alone, Device(0));
  DataParallel parallel(module, {0, 1});
  const Tensor x = numbers({4, 6, 4});
  sum(square(parallel(x))).backward();
  sum(square(alone(to(x, Device(0))))).backward();
  CHECK(gradient_difference(module, alone) < kTolerance);
}

TEST_CASE("an argument marked unsplit reaches every replica whole, and its gradients are summed", "[wishes]") {
  struct Scaled {
    Linear layer{3, 2, true, DType::f64};
    void visit(Visitor& member) { member("layer", layer); }
    Tensor operator()(const Tensor& x, const Tensor& scale) const { return layer(x) * scale; }
  };
  Scaled module = seeded_on<Scaled>(Device(0)), alone = seeded_on<Scaled>(Device(0));
  DataParallel parallel(module, {0, 1, 2});
  const Tensor x = numbers({7, 3}), here = to(x, Device(0));
  const Tensor scale = to(numbers({2}, 4), Device(0)), same_scale = to(numbers({2}, 4), Device(0));
  scale.set_requires_grad();
  same_scale.set_requires_grad();
  sum(square(parallel(x, unsplit(scale)))).backward();
  sum(square(alone(here, same_scale))).backward();
  CHECK(gradient_difference(module, alone) < kTolerance);
  CHECK(largest_difference(values_of(scale.grad()), values_of(same_scale.grad())) < kTolerance);
}
