// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "runtime/ops/arithmetic.h"
#include "runtime/ops/reduce.h"
#include "runtime/ops/shape.h"
#include "runtime/parallel/gather.h"
#include "runtime/parallel/scatter.h"
#include "runtime/tensor/copy.h"
#include "tests/runtime/parallel/test_nets.h"

using namespace fanout;
using namespace fanout::test;

TEST_CASE("scatter splits a host tensor in order and gather joins it again") {
  const Tensor x = numbers({9, 4});
  const std::vector<Device> devices{Device(2), Device(0), Device(1)};
  const Scatter pieces(x, 0, {4, 3, 2}, devices);
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < 3; ++i) {
    parts.push_back(pieces.piece(i));
    CHECK(parts.back().device() == devices[i]);
  }
  CHECK(parts[1].shape() == Shape{3, 4});
  CHECK(values_of(parts[1]) == values_of(narrow(x, 0, 4, 3)));
  const Tensor joined = gather(parts, Device(3));
  CHECK(joined.device() == Device(3));
  CHECK(values_of(joined) == values_of(x));
}

TEST_CASE("scatter and gather work along any dimension, negative ones too") {
  const Tensor x = numbers({3, 5, 2});
  const Scatter pieces(x, 1, {2, 2, 1}, {Device(0), Device(1), Device(2)});
  const std::vector<Tensor> parts{pieces.piece(0), pieces.piece(1), pieces.piece(2)};
  CHECK(parts[2].shape() == Shape{3, 1, 2});
  CHECK(values_of(gather(parts, Device(0), -2)) == values_of(x));
}

TEST_CASE("a piece on the source's own device is a view of it") {
  const Tensor x = to(numbers({4, 2}), Device(1));
  const Scatter pieces(x, 0, {2, 2}, {Device(0), Device(1)});
  CHECK(pieces.piece(1).raw_data() == x.data<double>() + 4);
  CHECK(pieces.piece(0).device() == Device(0));
}

TEST_CASE("backward of one piece alone leaves zeros for the other rows") {
  for (const Device home : {Device::host(), Device(3)}) {
    const Tensor x = copied_to(numbers({4, 3}), home);
    x.set_requires_grad();
    const Scatter pieces(x, 0, {2, 2}, {Device(0), Device(1)});
    sum(pieces.piece(1) * 2.0).backward();
    CHECK(x.grad().device() == home);
    CHECK(values_of(x.grad()) == std::vector<double>{0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2});
  }
}

TEST_CASE("gather of one number a replica is a vector, and each gets its own gradient") {
  std::vector<Tensor> outputs;
  for (int device = 0; device < 3; ++device) {
    outputs.push_back(full({}, device + 1, DType::f64, Device(device)));
    outputs.back().set_requires_grad();
  }
  const Tensor joined = gather(outputs, Device(0));
  CHECK(joined.shape() == Shape{3});
  CHECK(values_of(joined) == std::vector<double>{1, 2, 3});
  sum(square(joined)).backward();
  for (int device = 0; device < 3; ++device) {
    const Tensor gradient = outputs[static_cast<std::size_t>(device)].grad();
    CHECK(gradient.shape() == Shape{});
    CHECK(values_of(gradient) == std::vector<double>{2.0 * (device + 1)});
  }
}

TEST_CASE("gather of one output that is used twice adds both gradients") {
  const Tensor a = to(numbers({2, 2}, 1), Device(0)), b = to(numbers({2, 2}, 2), Device(1));
  b.set_requires_grad();
  (sum(gather(std::vector{a, b}, Device(0))) + to(sum(b * 3.0), Device(0))).backward();
  CHECK(values_of(b.grad()) == std::vector<double>{4, 4, 4, 4});
}

TEST_CASE("gather refuses outputs that do not fit, naming shapes, replicas, devices and the dimension") {
  CHECK_THROWS_WITH(gather(std::vector{to(numbers({2, 4}), Device(0)), to(numbers({3, 5}), Device(1))}, Device(0)),
                    "gather: output has shape [2, 4] (f64) in replica 0 on cuda:0 and [3, 5] (f64) in replica 1 on "
                    "cuda:1; dtype and all dimensions but 0 must agree");
  CHECK_THROWS_WITH(gather(std::vector<Tensor>{}, Device(0)), "gather: expected at least one output to gather from");
}
