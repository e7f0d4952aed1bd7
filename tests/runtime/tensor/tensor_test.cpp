// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/tensor.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "runtime/device/context.h"
#include "runtime/tensor/copy.h"
#include "runtime/tensor/flat.h"
#include "runtime/tensor/random.h"

using namespace fanout;
using Catch::Matchers::Contains;

namespace {

Tensor counting(const Shape& shape) {
  std::vector<double> values(static_cast<std::size_t>(shape.elements()));
  std::iota(values.begin(), values.end(), 0);
  return from_vector(values, shape);
}

}  // namespace

TEST_CASE("a shape prints, multiplies, and counts dimensions from both ends") {
  const Shape shape{2, 3, 4};
  CHECK(shape.text() == "[2, 3, 4]");
  CHECK(Shape{}.text() == "[]");
  CHECK(shape.elements() == 24);
  CHECK(Shape{}.elements() == 1);
  CHECK(shape.normalize(-1) == 2);
  CHECK(contiguous_strides(shape) == Shape{12, 4, 1});
  CHECK_THROWS_WITH(shape.normalize(3),
                    "dimension 3 is out of range for shape [2, 3, 4] (expected to be in range of [-3, 2])");
  CHECK_THROWS_WITH((Shape{2, -1}), "dimension 1 has the negative size -1");
  CHECK_THROWS_WITH((Shape{1, 1, 1, 1, 1, 1, 1}), "a tensor has at most 6 dimensions, 7 were asked for");
}

TEST_CASE("copies of a tensor name the same elements, detach does too, with the same write count") {
  const Tensor tensor = zeros({4}, DType::f32, Device::host());
  const Tensor same = tensor, detached = tensor.detach();
  same.data<float>()[2] = 5;
  CHECK(detached.data<float>()[2] == 5);
  tensor.count_write();
  CHECK(detached.version() == 1);
}

TEST_CASE("reading elements as another type is refused") {
  CHECK_THROWS_WITH(zeros({1}, DType::f32, Device::host()).data<double>(), "data<f64>() of a tensor with dtype f32");
}

TEST_CASE("values survive the way to a device, between devices and back, for every dtype") {
  const std::vector<std::uint8_t> bytes{0, 1, 127, 255};
  CHECK(to_vector<std::uint8_t>(copied_to(copied_to(from_vector(bytes, {4}), Device(1)), Device(3))) == bytes);
  const std::vector<std::int64_t> integers{-1, std::int64_t{1} << 40};
  CHECK(to_vector<std::int64_t>(copied_to(from_vector(integers, {2}), Device(2))) == integers);
  const std::vector<float> floats{0.5F, -3, 1e-30F};
  CHECK(to_vector<float>(copied_to(from_vector(floats, {3}), Device(0))) == floats);
}

TEST_CASE("copy follows strides on either side and between any two places") {
  const Tensor source = counting({3, 4});
  const Tensor transposed = strided_view(source, {4, 3}, {1, 4}, 0);
  CHECK_FALSE(transposed.is_contiguous());
  const std::vector<double> expected{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11};
  CHECK(to_vector<double>(transposed) == expected);
  for (const Device from : {Device::host(), Device(0), Device(1)}) {
    for (const Device to : {Device::host(), Device(0), Device(1)}) {
      const Tensor whole = copied_to(source, from);
      const Tensor view = strided_view(whole, {4, 3}, {1, 4}, 0);
      CHECK(to_vector<double>(copied_to(view, to)) == expected);
      const Tensor target = zeros({3, 4}, DType::f64, to);
      copy(strided_view(target, {4, 3}, {1, 4}, 0), copied_to(view, from));
      CHECK(to_vector<double>(target) == to_vector<double>(source));
    }
  }
}

TEST_CASE("copy refuses another shape or dtype, and counts a write") {
  const Tensor a = zeros({2, 2}, DType::f64, Device(0));
  CHECK_THROWS_WITH(
      copy(a, zeros({4}, DType::f64, Device(1))),
      "copy: the source is f64 [4] on cuda:1 and the target f64 [2, 2] on cuda:0; dtype and shape must agree");
  CHECK_THROWS_AS(copy(a, zeros({2, 2}, DType::f32, Device(1))), InvalidArgument);
  copy(a, zeros({2, 2}, DType::f64, Device(1)));
  CHECK(a.version() == 1);
}

TEST_CASE("a pageable source may change as soon as copy has returned") {
  std::vector<double> values(1 << 16, 1.0);
  const Tensor source = from_vector(values, {1 << 16});
  const Tensor target = copied_to(source, Device(0));
  std::fill_n(source.data<double>(), source.elements(), 7.0);
  CHECK(to_vector<double>(target) == values);
}

TEST_CASE("tensors without elements have no memory and can be copied") {
  const Tensor nothing = empty({0, 3}, DType::f32, Device(0));
  CHECK(nothing.raw_data() == nullptr);
  CHECK(to_vector<float>(nothing).empty());
  CHECK(copied_to(nothing, Device(1)).shape() == Shape{0, 3});
}

TEST_CASE("full fills and item reads one element") {
  CHECK(to_vector<float>(full({3}, 2.5, DType::f32, Device(1))) == std::vector<float>{2.5, 2.5, 2.5});
  CHECK(item(full({}, -4, DType::i64, Device(0))) == -4);
  CHECK_THROWS_WITH(item(zeros({2}, DType::f32, Device(0))), "item: one element is needed, the tensor has shape [2]");
  CHECK_THROWS_WITH(from_vector(std::vector<float>{1, 2}, {3}), "from_vector: 2 values for shape [3]");
}

TEST_CASE("a flat layout puts the last tensor of a dtype first, each at a multiple of 256 bytes") {
  const std::vector<Tensor> tensors{zeros({3}, DType::f32, Device::host()), zeros({5}, DType::f64, Device::host()),
                                    zeros({100}, DType::f32, Device::host())};
  const FlatLayout layout(tensors);
  CHECK(layout.order() == std::vector<std::size_t>{2, 0, 1});
  CHECK(layout.offset(2) == 0);
  CHECK(layout.end(2) == 512);
  CHECK(layout.offset(0) == 512);
  CHECK(layout.offset(1) == 768);
  CHECK(layout.bytes() == 1024);
  const Intrusive<Storage> buffer = zeroed_buffer(layout, Device(1));
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < 3; ++i) parts.push_back(layout.part(buffer, i, tensors[i]));
  CHECK(layout.holds(parts));
  CHECK_FALSE(layout.holds(tensors));
  CHECK(to_vector<double>(parts[1]) == std::vector<double>(5, 0.0));
  parts[0].count_write();
  CHECK(parts[1].version() == 0);
}

TEST_CASE("the same seed gives the same numbers, devices have sequences of their own") {
  manual_seed(5);
  const double first = host_generator().uniform(0, 1);
  const RandomRange zero = next_random_range(Device(0), 10), one = next_random_range(Device(1), 10);
  CHECK(zero.seed != one.seed);
  CHECK(next_random_range(Device(0), 1).offset == zero.offset + 3);
  manual_seed(5);
  CHECK(host_generator().uniform(0, 1) == first);
  CHECK(next_random_range(Device(0), 10).offset == zero.offset);
}

TEST_CASE("normal numbers have mean 0 and variance 1") {
  Generator generator(3);
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double x = generator.normal();
    sum += x;
    squares += x * x;
  }
  CHECK(sum / kCount == Approx(0).margin(0.02));
  CHECK(squares / kCount == Approx(1).margin(0.02));
}
