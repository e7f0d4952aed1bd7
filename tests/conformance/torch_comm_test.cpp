// SPDX-License-Identifier: Apache-2.0
// What torch's tests hold about comm.broadcast and comm.reduce_add, their coalesced forms, and the cases beyond them.
#include <catch2/catch.hpp>

#include "runtime/comm/comm.h"
#include "tests/conformance/comm_values.h"

using namespace fanout;
using namespace fanout::testing;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;

namespace {

const Device kHost = Device::host(), kZero(0), kOne(1), kTwo(2);

bool is_dense_copy(const Tensor& copy, const Tensor& original, Device device) {
  return copy.device() == device && copy.shape() == original.shape() && copy.dtype() == original.dtype() &&
         copy.is_contiguous() && (copy.elements() == 0 || copy.raw_data() != original.raw_data());
}

template <class T>
void check_reduce_add() {
  const Tensor x = counting<T>({5, 5}, kZero, 1), y = counting<T>({5, 5}, kOne, 100);
  std::vector<T> expected(25);
  for (std::size_t i = 0; i < 25; ++i) expected[i] = static_cast<T>(101 + 2 * i);
  for (const Device destination : {kZero, kOne}) {
    const Tensor sum = comm::reduce_add({x, y}, destination);
    CHECK(sum.device() == destination);
    CHECK(sum.shape() == Shape{5, 5});
    CHECK(to_vector<T>(sum) == expected);
  }
  CHECK(to_vector<T>(x)[24] == 25);
  CHECK(to_vector<T>(y)[24] == 124);
}

// Of several dtypes in turn, with strides and a number among them.
std::vector<Tensor> mixed(Device device) {
  const Tensor matrix = counting<float>({6, 8}, device, 1);
  return {counting<float>({7}, device, 1),        counting<double>({3, 2}, device, 2), transposed(matrix),
          counting<std::int64_t>({4}, device, 3), counting<double>({}, device, 9),     even_columns(matrix)};
}

// The elements of each tensor, whatever its dtype.
std::vector<std::vector<double>> values_of(const std::vector<Tensor>& tensors) {
  std::vector<std::vector<double>> values;
  for (const Tensor& tensor : tensors) {
    dispatch_any(tensor.dtype(), [&]<class Tag>(Tag) {
      const auto elements = to_vector<typename Tag::type>(tensor);
      values.emplace_back(elements.begin(), elements.end());
    });
  }
  return values;
}

}  // namespace

TEST_CASE("broadcast from the host copies to every device, from a device to the others, and itself stays itself") {
  const std::vector<float> values = to_vector<float>(counting({5, 5}, kHost));
  for (const Device home : {kHost, kZero, kOne}) {
    const Tensor x = counting({5, 5}, home);
    const std::vector<Tensor> results = comm::broadcast(x, {kZero, kOne});
    REQUIRE(results.size() == 2);
    for (const Device device : {kZero, kOne}) {
      const Tensor& result = results[static_cast<std::size_t>(device.index())];
      if (device == home) {
        CHECK(result.handle() == x.handle());
      } else {
        CHECK(is_dense_copy(result, x, device));
      }
      CHECK(to_vector<float>(result) == values);
    }
  }
}

TEST_CASE(
    "broadcast takes a device twice and the source's own anywhere in the list, and gives nothing for no devices") {
  const Tensor x = counting<std::int64_t>({3}, kOne);
  const std::vector<Tensor> results = comm::broadcast(x, {kTwo, kOne, kTwo});
  CHECK(results[1].handle() == x.handle());
  CHECK(results[0].raw_data() != results[2].raw_data());
  CHECK(to_vector<std::int64_t>(results[2]) == std::vector<std::int64_t>{0, 1, 2});
  CHECK(comm::broadcast(x, {}).empty());
}

TEST_CASE("broadcast_to fills the given tensors, also on the source's device and through strides, and counts a write") {
  const Tensor x = counting({6, 4}, kZero, 1);
  const std::vector<Tensor> outputs = {full({6, 4}, 0, DType::f32, kZero), full({6, 4}, 0, DType::f32, kOne),
                                       even_columns(full({6, 8}, 0, DType::f32, kTwo)), x};
  const std::uint32_t version = outputs[1].version();
  comm::broadcast_to(x, outputs);
  for (const Tensor& output : outputs) CHECK(to_vector<float>(output) == to_vector<float>(counting({6, 4}, kHost, 1)));
  CHECK(outputs[1].version() > version);
  comm::broadcast_to(x, {outputs[1], outputs[2]});  // distinct devices
  CHECK(to_vector<float>(outputs[1])[23] == 24);
}

TEST_CASE("broadcast says in torch's words what is wrong") {
  const Tensor x = counting({5, 5}, kZero), y = zeros({5, 5}, DType::f32, kOne);
  CHECK_THAT(thrown_text([&] {
               comm::broadcast(x, {kZero, kHost});
             }),
             Equals("Expected non-negative device index, but got -1 (cpu)"));
  CHECK_THAT(thrown_text([&] { comm::broadcast(x, {Device(8)}); }), Contains("device id 8 does not exist"));
  CHECK_THAT(thrown_text([&] {
               comm::broadcast_to(x, {y, zeros({5, 5}, DType::f32, kHost)});
             }),
             Equals("Expected all output tensors to be CUDA tensors, but output tensor at index 1 has device 'cpu'"));
  CHECK_THAT(thrown_text([&] {
               comm::broadcast_to(x, {y, zeros({5, 4}, DType::f32, kTwo)});
             }),
             Equals("Expected all output tensors to have same shape as the source tensor [5, 5], but output tensor at "
                    "index 1 has shape [5, 4]"));
  CHECK_THAT(thrown_text([&] {
               comm::broadcast_to(x, {zeros({5, 5}, DType::f64, kOne)});
             }),
             Contains("must be of the same Tensor dtype") && Contains("tensor 0 is f64 and not f32"));
  CHECK_THAT(thrown_text([&] { comm::broadcast(Tensor(), {kZero}); }), Contains("broadcast: tensor 0 is undefined"));
  CHECK(to_vector<float>(y) == std::vector<float>(25, 0));
}

TEST_CASE("broadcast_coalesced equals a broadcast of each tensor, for any mix of dtypes, strides and buffer sizes") {
  const std::size_t small = 28, two_and_a_half = 70;
  for (const std::size_t buffer_bytes : {std::size_t{0}, small, two_and_a_half, comm::kBufferBytes}) {
    CAPTURE(buffer_bytes);
    const std::vector<Tensor> tensors = mixed(kZero);
    const auto results = comm::broadcast_coalesced(tensors, {kZero, kOne, kTwo}, buffer_bytes);
    REQUIRE(results.size() == 3);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      CHECK(results[0][t].handle() == tensors[t].handle());
      CHECK(is_dense_copy(results[1][t], tensors[t], kOne));
      CHECK(is_dense_copy(results[2][t], tensors[t], kTwo));
    }
    CHECK(values_of(results[1]) == values_of(mixed(kHost)));
    CHECK(values_of(results[2]) == values_of(mixed(kHost)));
  }
}

TEST_CASE("broadcast_coalesced keeps the shape of tensors without elements, between others and alone") {
  const std::vector<Tensor> tensors = {counting({3}, kZero), zeros({0, 4}, DType::f32, kZero),
                                       zeros({0}, DType::f64, kZero), counting({2}, kZero)};
  const auto results = comm::broadcast_coalesced(tensors, {kZero, kOne});
  for (std::size_t t = 0; t < tensors.size(); ++t) CHECK(is_dense_copy(results[1][t], tensors[t], kOne));
  CHECK(values_of(results[1]) == values_of(tensors));
  const auto nothing = comm::broadcast_coalesced({}, {kZero, kOne});
  REQUIRE(nothing.size() == 2);
  CHECK((nothing[0].empty() && nothing[1].empty()));
}

TEST_CASE("each copy of broadcast_coalesced counts its own writes") {
  const auto results = comm::broadcast_coalesced({counting({3}, kZero), counting({2}, kZero)}, {kZero, kOne});
  const std::uint32_t first = results[1][0].version(), second = results[1][1].version();
  copy(results[1][0], counting({3}, kHost, 7));
  CHECK(results[1][0].version() > first);
  CHECK(results[1][1].version() == second);
  CHECK(to_vector<float>(results[1][1]) == std::vector<float>{0, 1});
}

TEST_CASE("broadcast_coalesced wants all tensors on the first device, and a device listed again gets them too") {
  const std::vector<Tensor> tensors = {counting({2}, kOne), counting({2}, kOne)};
  CHECK_THAT(thrown_text([&] {
               comm::broadcast_coalesced(tensors, {kZero, kOne});
             }),
             Equals("All tensors must be on devices[0]: cuda:0, but tensor 0 is on cuda:1"));
  CHECK_THAT(thrown_text([&] { comm::broadcast_coalesced(tensors, {}); }), Contains("at least one device"));
  const auto results = comm::broadcast_coalesced(tensors, {kOne, kTwo, kOne, kTwo});
  CHECK(results[2][1].handle() == tensors[1].handle());
  CHECK(results[3][1].raw_data() != results[1][1].raw_data());
  CHECK(to_vector<float>(results[3][1]) == std::vector<float>{0, 1});
}

TEST_CASE("reduce_add adds x on cuda:0 and y on cuda:1, on either of them, in every dtype") {
  check_reduce_add<float>();
  check_reduce_add<double>();
  check_reduce_add<std::int64_t>();
  check_reduce_add<std::uint8_t>();
}

TEST_CASE("reduce_add without a destination goes to the current device, and hands a single input back") {
  const Tensor x = counting({2}, kZero), y = counting({2}, kOne);
  const DeviceGuard guard(kOne);
  CHECK(comm::reduce_add({x, y}).device() == kOne);
  CHECK(comm::reduce_add({y}).handle() == y.handle());
  CHECK_THAT(thrown_text([&] { comm::reduce_add({x}); }),
             Contains("reduce_add expects destination to be on the same GPU with one of the tensors"));
}

TEST_CASE("several inputs on the destination: the last is the root, then the others are added by index") {
  // In f32, 1e8 + 1 is 1e8: (1e8 - 1e8) + 1 is 1, any other order is 0.
  const auto one = [](float value, Device device) { return full({3}, value, DType::f32, device); };
  const Tensor sum = comm::reduce_add({one(-1e8F, kZero), one(1, kOne), one(1e8F, kZero)}, kZero);
  CHECK(to_vector<float>(sum) == std::vector<float>(3, 1));
  CHECK(to_vector<float>(comm::reduce_add({one(-1e8F, kZero), one(1, kOne), one(1e8F, kTwo)}, kTwo)) ==
        std::vector<float>(3, 1));  // the same order through NCCL
  const Tensor labels = counting<std::int64_t>({2}, kZero, 1), bytes = counting<std::uint8_t>({2}, kZero, 200);
  CHECK(to_vector<std::int64_t>(comm::reduce_add({labels, labels, labels}, kZero)) == std::vector<std::int64_t>{3, 6});
  CHECK(to_vector<std::uint8_t>(comm::reduce_add({bytes, bytes}, kZero)) == std::vector<std::uint8_t>{144, 146});
}

TEST_CASE("reduce_add sums bf16 in bf16, through NCCL and beside it") {
  const auto filled = [](Device device) { return full({4}, 1.5, DType::bf16, device); };
  const Tensor apart = comm::reduce_add({filled(kZero), filled(kOne)}, kZero);
  const Tensor together = comm::reduce_add({filled(kZero), filled(kZero), filled(kOne)}, kZero);
  CHECK(apart.dtype() == DType::bf16);
  CHECK(item(strided_view(apart, {}, {}, 3)) == 3);
  CHECK(item(strided_view(together, {}, {}, 3)) == 4.5);
}

TEST_CASE("reduce_add says in torch's words what is wrong") {
  const Tensor x = counting({2, 2}, kZero);
  CHECK_THAT(thrown_text([&] {
               comm::reduce_add({x, counting({2, 2}, kHost)}, kZero);
             }),
             Equals("reduce_add expects all inputs to be on GPUs, but input 1 is on cpu"));
  CHECK_THAT(thrown_text([&] {
               comm::reduce_add({x, counting({2, 3}, kOne)}, kZero);
             }),
             Equals("input 1 has invalid size: got 2x3, but expected 2x2"));
  CHECK_THAT(
      thrown_text([&] {
        comm::reduce_add({x, counting({2, 2}, kOne)}, kTwo);
      }),
      Equals("reduce_add expects destination to be on the same GPU with one of the tensors, but cuda:2 is none of "
             "cuda:0, cuda:1"));
  CHECK_THAT(thrown_text([&] {
               comm::reduce_add({x, counting<double>({2, 2}, kOne)}, kZero);
             }),
             Contains("must be of the same Tensor dtype"));
  CHECK_THAT(thrown_text([&] { comm::reduce_add({}); }), Contains("at least one input"));
}

TEST_CASE("reduce_add_coalesced equals reduce_add of each tensor, for any mix of dtypes, strides and buffer sizes") {
  std::vector<std::vector<double>> expected = values_of(mixed(kHost));
  for (auto& values : expected)
    for (double& value : values) value *= 2;
  for (const std::size_t buffer_bytes : {std::size_t{0}, std::size_t{70}, comm::kBufferBytes}) {
    for (const Device destination : {kZero, kOne}) {
      CAPTURE(buffer_bytes, destination.index());
      const std::vector<Tensor> here = mixed(kZero), there = mixed(kOne);
      const std::vector<Tensor> sums = comm::reduce_add_coalesced({here, there}, destination, buffer_bytes);
      REQUIRE(sums.size() == here.size());
      for (std::size_t t = 0; t < sums.size(); ++t) CHECK(is_dense_copy(sums[t], here[t], destination));
      CHECK(values_of(sums) == expected);
      CHECK(values_of(here) == values_of(mixed(kHost)));
    }
  }
}

TEST_CASE("reduce_add_coalesced: own counts of writes, shapes without elements, and one list is copied") {
  const auto tensors = [](Device device) {
    return std::vector<Tensor>{counting({3}, device), zeros({0, 4}, DType::f32, device), counting({2}, device)};
  };
  const std::vector<Tensor> sums = comm::reduce_add_coalesced({tensors(kZero), tensors(kOne)}, kZero);
  CHECK(sums[1].shape() == Shape{0, 4});
  CHECK(to_vector<float>(sums[2]) == std::vector<float>{0, 2});
  const std::uint32_t version = sums[2].version();
  copy(sums[0], counting({3}, kHost, 5));
  CHECK(sums[2].version() == version);

  const std::vector<Tensor> alone = tensors(kOne), copies = comm::reduce_add_coalesced({alone}, kOne);
  for (const std::size_t t : {0, 2}) CHECK(is_dense_copy(copies[t], alone[t], kOne));
  CHECK(to_vector<float>(copies[0]) == std::vector<float>{0, 1, 2});
  CHECK(comm::reduce_add_coalesced({{}, {}}).empty());
}

TEST_CASE("reduce_add_coalesced names the tensor that does not fit") {
  const std::vector<Tensor> here = {counting({2}, kZero), counting({3}, kZero)};
  CHECK_THAT(thrown_text([&] {
               comm::reduce_add_coalesced({here, {counting({2}, kOne), counting({4}, kOne)}}, kZero);
             }),
             Equals("reduce_add_coalesced: tensor 1: input 1 has invalid size: got 4, but expected 3"));
  CHECK_THAT(thrown_text([&] {
               comm::reduce_add_coalesced({here, {counting({2}, kOne)}}, kZero);
             }),
             Equals("reduce_add_coalesced: inputs[1] has 1 tensors and inputs[0] has 2"));
  CHECK_THAT(thrown_text([&] {
               comm::reduce_add_coalesced({here, {counting({2}, kOne), counting({3}, kTwo)}}, kZero);
             }),
             Contains("inputs[1] has tensor 0 on cuda:1 and tensor 1 on cuda:2"));
}

TEST_CASE("transposed and sliced tensors are broadcast and summed like dense copies of them and stay as they are") {
  const std::vector<float> dense_transposed = by_rows<float>(8, 6, 1, 8), dense_even = by_rows<float>(6, 4, 8, 2);
  for (const bool transpose : {true, false}) {
    const auto strided = [&](Device device) {
      const Tensor matrix = counting({6, 8}, device);
      return transpose ? transposed(matrix) : even_columns(matrix);
    };
    const std::vector<float>& dense = transpose ? dense_transposed : dense_even;
    const Tensor x = strided(kZero), y = strided(kOne);
    const Shape strides = x.strides();
    const Tensor copied = comm::broadcast(x, {kZero, kTwo})[1];
    CHECK(copied.is_contiguous());
    CHECK(to_vector<float>(copied) == dense);
    std::vector<float> doubled = dense;
    for (float& value : doubled) value *= 2;
    CHECK(to_vector<float>(comm::reduce_add({x, y}, kOne)) == doubled);
    CHECK(to_vector<float>(comm::reduce_add({x, y, x}, kOne))[3] == 3 * dense[3]);
    CHECK(x.strides() == strides);
    CHECK(to_vector<float>(x) == dense);
  }
}
