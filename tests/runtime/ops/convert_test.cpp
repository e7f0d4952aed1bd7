// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convert.h"

#include <catch2/catch.hpp>

#include <limits>

#include "runtime/ops/shape.h"
#include "tests/kernels/bf16_values.h"
#include "tests/runtime/gradcheck.h"

namespace fanout::testing {
namespace {

using Catch::Matchers::Contains;
using kernels::nearest_bf16;

std::vector<double> rounded(const std::vector<double>& values) {
  std::vector<double> result;
  for (const double value : values) result.push_back(nearest_bf16(value));
  return result;
}

std::vector<float> floats_of(const Tensor& bf16) {
  const auto values = to_vector<__nv_bfloat16>(bf16);
  return {values.begin(), values.end()};
}

TEST_CASE("convert rounds f32 and f64 to bf16 and gives every bf16 back exactly, on a device and on the host") {
  const Tensor x = random_tensor({37, 5}, 1);
  const std::vector<double> expected = rounded(to_vector<double>(x));
  for (const Device device : {Device(0), Device(1), Device::host()}) {
    const Tensor there = to(x, device);
    const Tensor narrow = convert(there, DType::bf16);
    CHECK(narrow.dtype() == DType::bf16);
    CHECK(narrow.device() == device);
    CHECK(narrow.shape() == Shape{37, 5});
    CHECK(to_vector<double>(convert(narrow, DType::f64)) == expected);
    const std::vector<float> as_floats = to_vector<float>(convert(narrow, DType::f32));
    CHECK(std::vector<double>(as_floats.begin(), as_floats.end()) == expected);
    CHECK(floats_of(convert(convert(there, DType::f32), DType::bf16)) == as_floats);
  }
}

TEST_CASE("convert takes bytes, integers and strided tensors, and the tensor itself where nothing is to do") {
  const Tensor bytes = on_device<std::uint8_t>({0, 1, 255, 254}, {2, 2});
  CHECK(to_vector<float>(convert(bytes, DType::f32)) == std::vector<float>{0, 1, 255, 254});
  CHECK(floats_of(convert(transpose(bytes), DType::bf16)) == std::vector<float>{0, 255, 1, 254});
  const Tensor integers = on_device<std::int64_t>({-3, 257}, {2});
  CHECK(to_vector<double>(convert(integers, DType::f64)) == std::vector<double>{-3, 257});
  CHECK(floats_of(convert(integers, DType::bf16)) == std::vector<float>{-3, 256});
  const Tensor x = random_tensor({3}, 1);
  CHECK(convert(x, DType::f64).raw_data() == x.raw_data());
  CHECK(convert(zeros({0, 3}, DType::f32, Device(0)), DType::bf16).shape() == Shape{0, 3});
  CHECK_THROWS_WITH(convert(x, DType::i64), Contains("f64 [3] on cuda:0 to i64; f32, f64 and bf16 are possible"));
  CHECK_THROWS_WITH(convert(Tensor(), DType::f32), Contains("undefined"));
}

TEST_CASE("convert keeps NaN and both infinities") {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const Device device : {Device(0), Device::host()}) {
    const auto back = floats_of(convert(to(from_vector<float>({infinity, -infinity, nan}, {3}), device), DType::bf16));
    CHECK(back[0] == infinity);
    CHECK(back[1] == -infinity);
    CHECK(std::isnan(back[2]));
  }
}

TEST_CASE("the gradient of convert has the operand's dtype, rounded on its way through bf16") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = leaf_of(convert(random_tensor({4, 3}, 1), dtype));
    const Tensor weights = random_tensor({4, 3}, 2);
    backward(sum(convert(convert(x, DType::bf16), DType::f64) * weights));
    CHECK(x.grad().dtype() == dtype);
    CHECK(to_vector<double>(convert(x.grad(), DType::f64)) == rounded(to_vector<double>(weights)));
  }
  // Both uses of a bf16 tensor add up in bf16.
  const Tensor x = leaf_of(on_device<float>({1, 2}, {2}));
  const Tensor narrow = convert(x, DType::bf16);
  backward(sum(convert(narrow, DType::f32) * 256) + sum(convert(narrow, DType::f32) * 3));
  CHECK(to_vector<float>(x.grad()) == std::vector<float>{260, 260});
}

TEST_CASE("convert between f32 and f64 has the derivatives of the identity, of any order") {
  const Tensor x = leaf_of(on_device<float>({3}, {1}));
  backward(square(convert(x, DType::f64)), {}, {.create_graph = true});
  const Tensor gradient = x.grad();
  x.clear_grad();
  CHECK(gradient.dtype() == DType::f32);
  CHECK(item(gradient) == 6);
  backward(gradient);
  CHECK(item(x.grad()) == 2);
}

TEST_CASE("bf16 tensors are made, copied, viewed and joined like all others") {
  const Tensor x = convert(on_device<float>({1, 2, 3, 4, 5, 6}, {2, 3}), DType::bf16);
  CHECK(x.text() == "bf16 [2, 3] on cuda:0");
  CHECK(x.bytes() == 12);
  CHECK(floats_of(transpose(x)) == std::vector<float>{1, 4, 2, 5, 3, 6});
  CHECK(floats_of(contiguous(narrow(x, 1, 1, 2))) == std::vector<float>{2, 3, 5, 6});
  CHECK(floats_of(reshape(x, {3, -1})) == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(floats_of(concat({x, narrow(x, 1, 0, 1)}, 1)) == std::vector<float>{1, 2, 3, 1, 4, 5, 6, 4});
  CHECK(floats_of(to(transpose(x), Device(1))) == std::vector<float>{1, 4, 2, 5, 3, 6});
  CHECK(floats_of(to(to(x, Device::host()), Device(1))) == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(floats_of(zeros({2}, DType::bf16, Device(0))) == std::vector<float>{0, 0});
  for (const Device device : {Device(0), Device::host()}) {
    CHECK(floats_of(full({2}, 257, DType::bf16, device)) == std::vector<float>{256, 256});
    CHECK(item(full({}, -1.5, DType::bf16, device)) == -1.5);
  }
  const Tensor target = zeros({3, 2}, DType::bf16, Device(0));
  copy(transpose(target), x);
  CHECK(floats_of(target) == std::vector<float>{1, 4, 2, 5, 3, 6});
  CHECK_THROWS_WITH(to_vector<float>(x), Contains("data<f32>() of a tensor with dtype bf16"));
  CHECK(floats_of(from_vector<__nv_bfloat16>({1.0f, 2.5f}, {2})) == std::vector<float>{1, 2.5});
}

TEST_CASE("gradients pass through views, copies and joins of bf16") {
  const Tensor x = leaf_of(convert(random_tensor({4, 3}, 1), DType::bf16));
  const Tensor turned = transpose(reshape(contiguous(transpose(narrow(x, 0, 0, 3))), {3, 3}));
  const Tensor there = to(concat({narrow(x, 0, 1, 2), turned}, 0), Device(1));
  backward(sum(convert(there, DType::f32)));
  CHECK(x.grad().dtype() == DType::bf16);
  CHECK(floats_of(x.grad()) == std::vector<float>{1, 1, 1, 2, 2, 2, 2, 2, 2, 0, 0, 0});
}

}  // namespace
}  // namespace fanout::testing
