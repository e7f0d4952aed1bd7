// SPDX-License-Identifier: Apache-2.0
// What torch's own tests ask of scatter and gather on their own.
#include <catch2/catch.hpp>
#include <map>

#include "runtime/ops/shape.h"
#include "runtime/parallel/data_parallel.h"
#include "tests/conformance/comparison.h"
#include "tests/runtime/gradcheck.h"

using namespace fanout;
using namespace fanout::test;
using testing::Inputs;

namespace {

const std::vector<Device> kTwo{Device(0), Device(1)};

void check_scatter(Device home) {
  const Tensor x = leaf_on(home, numbers({4, 4}));
  const std::vector<Tensor> pieces = scatter(x, kTwo);
  REQUIRE(pieces.size() == 2);
  for (int index = 0; index < 2; ++index) {
    const Tensor& piece = pieces[static_cast<std::size_t>(index)];
    CHECK(piece.device() == Device(index));
    CHECK(values_of(piece) == values_of(narrow(numbers({4, 4}), 0, 2 * index, 2)));
  }
  backward(pieces[0], full({2, 4}, 2, DType::f64, Device(0)));
  CHECK(x.grad().device() == home);
  CHECK(values_of(x.grad()) == std::vector<double>{2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0});

  // Squares, so that second derivatives are not zero; derivatives are compared on the first device.
  const auto through = [&](const Inputs& at) {
    const std::vector<Tensor> parts = scatter(to(at[0], home), kTwo);
    return concat({square(parts[0]), to(square(parts[1]) * 3, Device(0))});
  };
  testing::check_derivatives(through, {numbers_on(Device(0), {4, 4})});
}

void check_gather(Device target) {
  const Tensor first = leaf_on(Device(0), numbers({2, 4}, 1)), second = leaf_on(Device(1), numbers({2, 4}, 2));
  const Tensor joined = gather(std::vector<Tensor>{first, second}, target);
  CHECK(joined.shape() == Shape{4, 4});
  CHECK(joined.device() == target);
  CHECK(values_of(narrow(joined, 0, 0, 2)) == values_of(first));
  CHECK(values_of(narrow(joined, 0, 2, 2)) == values_of(second));
  const Tensor gradient = copied_to(numbers({4, 4}, 3), target);
  backward(joined, gradient);
  CHECK(first.grad().device() == Device(0));
  CHECK(second.grad().device() == Device(1));
  CHECK(values_of(first.grad()) == values_of(narrow(gradient, 0, 0, 2)));
  CHECK(values_of(second.grad()) == values_of(narrow(gradient, 0, 2, 2)));

  const auto through = [&](const Inputs& at) {
    return square(to(gather(std::vector<Tensor>{at[0], to(at[1], Device(1))}, target), Device(0)));
  };
  testing::check_derivatives(through, {numbers_on(Device(0), {2, 4}, 1), numbers_on(Device(0), {2, 4}, 2)});
}

void check_gather_of_numbers(Device target) {
  const Tensor first = leaf_on(Device(0), numbers({}, 1)), second = leaf_on(Device(1), numbers({}, 2));
  const Tensor joined = gather(std::vector<Tensor>{first, second}, target);
  CHECK(joined.shape() == Shape{2});
  CHECK(joined.device() == target);
  CHECK(values_of(joined) == std::vector<double>{item(first), item(second)});
  backward(joined, copied_to(from_vector<double>({0.25, -3}, {2}), target));
  CHECK(first.grad().shape() == Shape{});
  CHECK(item(first.grad()) == 0.25);
  CHECK(item(second.grad()) == -3);

  const auto through = [&](const Inputs& at) {
    return square(to(gather(std::vector<Tensor>{at[0], to(at[1], Device(1))}, target), Device(0)));
  };
  testing::check_derivatives(through, {numbers_on(Device(0), {}, 1), numbers_on(Device(0), {}, 2)});
}

}  // namespace

TEST_CASE("a host tensor is split in two, one piece's gradient fills its rows alone, derivatives of both orders hold",
          "[torch 9.1.19 test_scatter_cpu]") {
  check_scatter(Device::host());
}

TEST_CASE("a tensor on a device is split in two, one piece's gradient fills its rows alone, both derivatives hold",
          "[torch 9.1.20 test_scatter_gpu]") {
  check_scatter(Device(0));
  check_scatter(Device(1));
  check_scatter(Device(2));
}

TEST_CASE("two tensors are joined on the host, the gradient is split between them, derivatives of both orders hold",
          "[torch 9.1.22 test_gather_cpu]") {
  check_gather(Device::host());
  check_gather_of_numbers(Device::host());
}

TEST_CASE("two tensors are joined on a device, the gradient is split between them, derivatives of both orders hold",
          "[torch 9.1.23 test_gather_gpu]") {
  for (const Device target : {Device(0), Device(1), Device(2)}) {
    check_gather(target);
    check_gather_of_numbers(target);
  }
}

TEST_CASE("maps of different sizes, or with different keys, are refused, naming both replicas",
          "[torch 9.1.24 test_gather_different_len_dicts]") {
  using Dict = std::map<std::string, Tensor>;
  const Tensor here = numbers_on(Device(0), {1}), there = numbers_on(Device(1), {1});
  const std::vector<Dict> sizes{{{"a", here}, {"b", here}}, {{"a", there}, {"b", there}, {"c", there}}};
  CHECK_THROWS_AS(gather(sizes, Device(0)), InvalidArgument);
  CHECK_THROWS_WITH(gather(sizes, Device(0)),
                    "gather: output has 2 elements in replica 0 on cuda:0 and 3 in replica 1 on cuda:1; all replicas "
                    "must return the same structure");
  CHECK_THROWS_WITH(gather(std::vector<Dict>{{{"a", here}}, {{"b", there}}}, Device(0)),
                    "gather: output has key \"a\" in replica 0 on cuda:0 and \"b\" in replica 1 on cuda:1; all "
                    "replicas must return the same structure");
}
