// SPDX-License-Identifier: Apache-2.0
// bf16 tensors between devices: moved bit by bit, summed with one rounding for each further device.
#include <catch2/catch.hpp>

#include "runtime/comm/comm.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/ops/convert.h"
#include "runtime/ops/reduce.h"
#include "runtime/ops/shape.h"
#include "runtime/parallel/gather.h"
#include "runtime/parallel/scatter.h"
#include "runtime/tensor/copy.h"

using namespace fanout;

namespace {

const std::vector<Device> kThree = {Device(0), Device(1), Device(2)};

Tensor bf16_on(Device device, const std::vector<float>& values, const Shape& shape) {
  return convert(copied_to(from_vector(values, shape), device), DType::bf16);
}

std::vector<float> floats_of(const Tensor& tensor) {
  return to_vector<float>(convert(tensor, DType::f32));
}

}  // namespace

TEST_CASE("scatter and gather move bf16 and its gradient, along any dimension, from and to the host too") {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  for (const int dim : {0, 1}) {
    for (const Device end : {Device(0), Device::host()}) {
      const Tensor x = bf16_on(Device(0), values, dim == 0 ? Shape{5, 2} : Shape{2, 5}).set_requires_grad();
      const std::vector<Tensor> pieces = scatter(x, kThree, dim);
      REQUIRE(pieces.size() == 3);
      CHECK(pieces[2].dtype() == DType::bf16);
      CHECK(pieces[2].size(dim) == 1);
      const Tensor joined = gather(pieces, end, dim);
      CHECK(joined.dtype() == DType::bf16);
      CHECK(floats_of(joined) == values);
      sum(convert(to(joined, Device(0)), DType::f32) * 3).backward();
      CHECK(x.grad().dtype() == DType::bf16);
      CHECK(floats_of(x.grad()) == std::vector<float>(10, 3));
    }
  }
}

TEST_CASE("bf16 tensors of rank 0 are joined to a vector") {
  const std::vector<Tensor> outputs = {bf16_on(Device(0), {1.5f}, {}), bf16_on(Device(1), {-2}, {})};
  CHECK(floats_of(gather(outputs, Device(0))) == std::vector<float>{1.5f, -2});
}

TEST_CASE("comm broadcasts bf16, and sums it over devices with a rounding for each") {
  const auto copies = comm::broadcast(bf16_on(Device(0), {1, 2.5f}, {2}), kThree);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    CHECK(copies[i].device() == kThree[i]);
    CHECK(floats_of(copies[i]) == std::vector<float>{1, 2.5f});
  }
  const std::vector<Tensor> terms = {bf16_on(Device(0), {256, 1}, {2}), bf16_on(Device(1), {3, 2}, {2})};
  const Tensor total = comm::reduce_add(terms, Device(0));
  CHECK(total.dtype() == DType::bf16);
  CHECK(floats_of(total) == std::vector<float>{260, 3});
}
