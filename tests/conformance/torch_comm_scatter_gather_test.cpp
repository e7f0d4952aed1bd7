// SPDX-License-Identifier: Apache-2.0
// What torch's tests hold about comm.scatter and comm.gather, and the cases beyond them.
#include <catch2/catch.hpp>

#include "runtime/comm/comm.h"
#include "runtime/device/context.h"
#include "tests/conformance/comm_values.h"

using namespace fanout;
using namespace fanout::testing;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;

namespace {

const Device kHost = Device::host(), kZero(0), kOne(1), kTwo(2), kThree(3);

// Columns [begin, end) or rows [begin, end) of the [rows, columns] matrix 0, 1, 2, …
std::vector<float> part_of(const Shape& shape, int dim, std::int64_t begin, std::int64_t end) {
  std::vector<float> values;
  for (std::int64_t r = 0; r < shape[0]; ++r) {
    for (std::int64_t c = 0; c < shape[1]; ++c) {
      const std::int64_t along = dim == 0 ? r : c;
      if (along >= begin && along < end) values.push_back(static_cast<float>(r * shape[1] + c));
    }
  }
  return values;
}

struct Split {
  int dim;                           // as given
  std::vector<std::int64_t> sizes;   // as given
  std::vector<std::int64_t> pieces;  // as expected
};

void check_scatter(const Tensor& x, const Split& split) {
  const std::vector<Device> devices{kZero, kOne};
  const int dim = x.shape().normalize(split.dim);
  const std::vector<Tensor> pieces = comm::scatter(x, devices, {.chunk_sizes = split.sizes, .dim = split.dim});
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < 2; ++i) outputs.push_back(full(pieces[i].shape(), -1, DType::f32, devices[i]));
  comm::scatter_into(x, outputs, split.dim);
  REQUIRE(pieces.size() == 2);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < 2; begin += split.pieces[i++]) {
    const std::vector<float> expected = part_of(x.shape(), dim, begin, begin + split.pieces[i]);
    CHECK(pieces[i].device() == devices[i]);
    CHECK(pieces[i].shape() == x.shape().with(dim, split.pieces[i]));
    CHECK(to_vector<float>(pieces[i]) == expected);
    CHECK(to_vector<float>(outputs[i]) == expected);
    const bool is_view = pieces[i].body().storage == x.body().storage;
    CHECK(is_view == (x.device() == devices[i]));
  }
}

// Bytes that the pool of `device` lent at most since the last call, beyond what it lends now.
std::uint64_t peak_growth(Device device, std::uint64_t* before) {
  cudaMemPool_t pool = nullptr;
  std::uint64_t now = 0, most = 0, reset = 0;
  REQUIRE(cudaDeviceGetDefaultMemPool(&pool, device.index()) == cudaSuccess);
  REQUIRE(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &most) == cudaSuccess);
  REQUIRE(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &now) == cudaSuccess);
  REQUIRE(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &reset) == cudaSuccess);
  const std::uint64_t growth = most - *before;
  *before = now;
  return growth;
}

}  // namespace

TEST_CASE("scatter from the host and from a device: default, dim 1, dim -2, sizes 2 and 4, with views at home") {
  for (const Device home : {kHost, kZero, kOne, kTwo}) {
    CAPTURE(home.index());
    check_scatter(counting({4, 4}, home), {0, {}, {2, 2}});
    check_scatter(counting({6, 4}, home), {1, {}, {2, 2}});
    check_scatter(counting({6, 4}, home), {-2, {}, {3, 3}});
    check_scatter(counting({6, 4}, home), {0, {2, 4}, {2, 4}});
    check_scatter(counting({4, 6}, home), {-1, {0, 6}, {0, 6}});
  }
}

TEST_CASE("chunk_sizes is torch.chunk's rule") {
  using Sizes = std::vector<std::int64_t>;
  CHECK(comm::chunk_sizes(9, 4) == Sizes{3, 3, 3});
  CHECK(comm::chunk_sizes(10, 4) == Sizes{3, 3, 3, 1});
  CHECK(comm::chunk_sizes(17, 8) == Sizes{3, 3, 3, 3, 3, 2});
  CHECK(comm::chunk_sizes(2, 8) == Sizes{1, 1});
  CHECK(comm::chunk_sizes(0, 3) == Sizes{0, 0, 0});
  CHECK(comm::scatter(counting({9, 2}, kHost), {kZero, kOne, kTwo, kThree}).size() == 3);
}

TEST_CASE("scatter queues copies on the given streams, from the host, pinned or not, and from another device") {
  Stream on_zero(kZero), on_one(kOne);
  const Tensor pinned = empty({6, 4}, DType::f32, kHost, HostMemory::pinned);
  copy(pinned, counting({6, 4}, kHost));
  for (const Tensor& x : {counting({6, 4}, kHost), pinned, counting({6, 4}, kTwo)}) {
    for (const int dim : {0, 1}) {
      const auto pieces =
          comm::scatter(x, {kZero, kOne, kThree}, {.dim = dim, .streams = {on_zero.view(), on_one.view()}});
      wait_for(compute_stream(kZero), on_zero);
      wait_for(compute_stream(kOne), on_one);
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        const auto size = static_cast<std::int64_t>(pieces[i].shape()[dim]), begin = static_cast<std::int64_t>(i) * 2;
        CHECK(to_vector<float>(pieces[i]) == part_of(x.shape(), dim, begin, begin + size));
      }
    }
  }
}

TEST_CASE("scatter says in torch's words what is wrong, before anything is copied") {
  const Tensor x = counting({4, 4}, kZero);
  const std::vector<Device> two{kZero, kOne};
  Stream on_one(kOne);
  const auto scatter_text = [&](const Tensor& tensor, const std::vector<Device>& devices,
                                const comm::ScatterOptions& options = {}) {
    return thrown_text([&] { comm::scatter(tensor, devices, options); });
  };
  CHECK_THAT(scatter_text(x, {}), Equals("Expected at least one device to scatter to"));
  CHECK_THAT(scatter_text(x, two, {.chunk_sizes = {1, 1, 2}}),
             Equals("Expected devices and chunk_sizes to be of same length, but got len(devices) = 2 and "
                    "len(chunk_sizes) = 3"));
  CHECK_THAT(
      scatter_text(x, two, {.streams = {std::nullopt, StreamView{on_one.view().handle, kTwo}}}),
      Equals("Expected the device associated with the stream at index 1 (was cuda:2) to match the device supplied "
             "at that index (expected cuda:1)"));
  CHECK_THAT(scatter_text(x, {kZero, kHost}), Equals("Expected non-negative device index, but got -1 (cpu)"));
  CHECK_THAT(
      scatter_text(x, two, {.chunk_sizes = {1, 2}}),
      Equals("split_with_sizes expects split_sizes to sum exactly to 4 (input tensor's size at dimension 0), but "
             "got split_sizes=[1, 2]"));
  CHECK_THAT(
      scatter_text(x, two, {.chunk_sizes = {5, -1}}),
      Equals("split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=[5, -1]"));
  CHECK_THAT(scatter_text(x, two, {.dim = 2}),
             Equals("Dimension out of range (expected to be in range of [-2, 1], but got 2)"));
  CHECK_THAT(scatter_text(counting({}, kZero), two), Equals("chunk expects at least a 1-dimensional tensor"));
  CHECK_THAT(scatter_text(x, {kZero}, {.streams = {std::nullopt, on_one.view()}}), Contains("at most one stream"));
}

TEST_CASE("scatter_into says in torch's words what is wrong") {
  const Tensor x = counting({4, 4}, kZero);
  const auto output = [](const Shape& shape, Device device) { return zeros(shape, DType::f32, device); };
  const auto into_text = [&](const std::vector<Tensor>& outputs, int dim = 0) {
    return thrown_text([&] { comm::scatter_into(x, outputs, dim); });
  };
  CHECK_THAT(into_text({}), Equals("Expected at least one output tensor to scatter to"));
  CHECK_THAT(into_text({output({2, 4}, kZero), output({2, 4}, kHost)}),
             Equals("Expected all output tensors to be CUDA tensors, but output tensor at index 1 has device 'cpu'"));
  CHECK_THAT(
      into_text({output({2, 4}, kZero), output({2, 3}, kOne)}),
      Equals("Output tensor at index 1 has incorrect shape: [2, 3]. Expected same shape except for scatter dim 0 as "
             "the source tensor: [4, 4]"));
  CHECK_THAT(into_text({output({4}, kZero)}), Contains("Output tensor at index 0 has incorrect shape: [4]"));
  CHECK_THAT(into_text({output({4, 3}, kZero), output({4, 3}, kOne)}, -1),
             Equals("Total size for output tensors along scatter dim 1 does not match the source tensor size at dim 1. "
                    "Expected 4, but got total size 6"));
  CHECK_THAT(into_text({zeros({4, 4}, DType::i64, kOne)}), Contains("must be of the same Tensor dtype"));
}

TEST_CASE("gather along dim 0, 1 and -1 to the current device, another one, the host and one that holds no input") {
  for (const int dim : {0, 1, -1}) {
    const int along = dim == 0 ? 0 : 1;
    // Pieces of the [6, 6] matrix 0, 1, 2, … of sizes 2 and 4.
    const Shape whole{6, 6};
    const std::vector<Tensor> parts = {copied_to(from_vector(part_of(whole, along, 0, 2), whole.with(along, 2)), kZero),
                                       copied_to(from_vector(part_of(whole, along, 2, 6), whole.with(along, 4)), kOne)};
    const std::vector<float> expected = part_of(whole, 0, 0, 6);
    const DeviceGuard guard(kOne);
    for (const std::optional<Device> destination :
         {std::optional<Device>(), std::optional(kZero), std::optional(kHost), std::optional(kTwo)}) {
      const Tensor joined = comm::gather(parts, {.dim = dim, .destination = destination});
      CHECK(joined.device() == destination.value_or(kOne));
      CHECK(joined.shape() == whole);
      CHECK(joined.is_contiguous());
      CHECK(to_vector<float>(joined) == expected);
      const Tensor out = full(whole, -1, DType::f32, destination.value_or(kThree));
      const std::uint32_t version = out.version();
      comm::gather_into(parts, out, dim);
      CHECK(to_vector<float>(out) == expected);
      CHECK(out.version() > version);
    }
  }
}

TEST_CASE("gather copies a single input, and joins whole numbers") {
  const Tensor labels = counting<std::int64_t>({3}, kZero), more = counting<std::int64_t>({2}, kOne, 3);
  const Tensor copied = comm::gather({labels}, {.destination = kZero});
  CHECK(copied.raw_data() != labels.raw_data());
  CHECK(to_vector<std::int64_t>(comm::gather({labels, more}, {.destination = kZero})) ==
        std::vector<std::int64_t>{0, 1, 2, 3, 4});
}

TEST_CASE("gather says in torch's words what is wrong") {
  const Tensor x = counting({2, 3}, kZero);
  const auto gather_text = [&](const std::vector<Tensor>& tensors, const comm::GatherOptions& options = {}) {
    return thrown_text([&] { comm::gather(tensors, options); });
  };
  CHECK_THAT(gather_text({}), Equals("Expected at least one tensor to gather from"));
  CHECK_THAT(gather_text({x, counting({2, 3}, kHost)}),
             Equals("Expected all input tensors to be CUDA tensors, but tensor at index 1 has device cpu"));
  CHECK_THAT(gather_text({x, counting({2}, kOne)}),
             Equals("Expected all input tensors to have the same number of dimensions, but tensor at index 1 has 1 "
                    "dimensions, (expected 2)"));
  CHECK_THAT(gather_text({x, counting({2, 4}, kOne)}),
             Equals("Input tensor at index 1 has invalid shape [2, 4], but expected [2, 3]"));
  CHECK_THAT(gather_text({x}, {.dim = -3}),
             Equals("Dimension out of range (expected to be in range of [-2, 1], but got -3)"));
  CHECK_THAT(gather_text({x, counting<double>({2, 3}, kOne)}), Contains("must be of the same Tensor dtype"));
  CHECK_THAT(gather_text({counting({}, kZero)}), Contains("is a number and has no dimension to join"));
  CHECK_THAT(gather_text({x}, {.destination = Device(8)}), Contains("device id 8 does not exist"));
  const auto into_text = [&](const std::vector<Tensor>& tensors, const Tensor& out) {
    return thrown_text([&] { comm::gather_into(tensors, out); });
  };
  CHECK_THAT(into_text({counting({2, 3}, kHost)}, x),
             Equals("Expected all input tensors to be CUDA tensors, but tensor at index 0 has device 'cpu'"));
  CHECK_THAT(into_text({x, x}, zeros({4, 4}, DType::f32, kOne)),
             Equals("Expected out tensor to have shape [4, 3], but got [4, 4]"));
}

TEST_CASE("a layout with channels last is scattered and gathered by value into row-major results") {
  // [n, c, h, w] = [4, 2, 3, 2] kept in the order n, h, w, c.
  const Tensor kept = counting({4, 3, 2, 2}, kZero);
  const Tensor images = strided_view(kept, {4, 2, 3, 2}, {12, 1, 4, 2}, 0);
  const std::vector<float> values = to_vector<float>(images);
  CHECK(values[1] == 2);  // n 0, c 0, h 0, w 1
  CHECK(values[6] == 1);  // n 0, c 1, h 0, w 0
  const std::vector<Tensor> pieces = comm::scatter(images, {kZero, kOne});
  CHECK(pieces[0].strides() == images.strides());
  CHECK(pieces[1].is_contiguous());
  CHECK(to_vector<float>(comm::gather(pieces, {.destination = kTwo})) == values);
}

TEST_CASE("no rows give an empty piece a device, and no columns keep their place through scatter and gather") {
  for (const Device home : {kHost, kZero}) {
    const std::vector<Tensor> pieces = comm::scatter(zeros({0, 3}, DType::f32, home), {kZero, kOne, kTwo});
    REQUIRE(pieces.size() == 3);
    for (const Tensor& piece : pieces) CHECK(piece.shape() == Shape{0, 3});
    CHECK(comm::gather(pieces, {.destination = kOne}).shape() == Shape{0, 3});
    const std::vector<Tensor> narrow = comm::scatter(zeros({4, 0}, DType::f32, home), {kZero, kOne});
    CHECK(narrow[1].shape() == Shape{2, 0});
    CHECK(comm::gather(narrow, {.destination = kHost}).shape() == Shape{4, 0});
  }
}

TEST_CASE("transposed and sliced tensors are scattered and gathered like dense copies of them and stay as they are") {
  for (const Device home : {kHost, kZero}) {
    for (const bool transpose : {true, false}) {
      const Tensor matrix = counting({6, 8}, home), x = transpose ? transposed(matrix) : even_columns(matrix);
      const std::vector<float> dense = transpose ? by_rows<float>(8, 6, 1, 8) : by_rows<float>(6, 4, 8, 2);
      const Tensor dense_copy = copied_to(from_vector(dense, x.shape()), home);
      const Shape strides = x.strides();
      for (const int dim : {0, 1}) {
        const std::vector<Device> devices{kOne, kZero, kTwo};
        const auto pieces = comm::scatter(x, devices, {.dim = dim});
        const auto expected = comm::scatter(dense_copy, devices, {.dim = dim});
        REQUIRE(pieces.size() == expected.size());
        for (std::size_t i = 0; i < pieces.size(); ++i)
          CHECK(to_vector<float>(pieces[i]) == to_vector<float>(expected[i]));
        CHECK(to_vector<float>(comm::gather(pieces, {.dim = dim, .destination = kThree})) == dense);
        if (home == kZero) {
          const Tensor out = transposed(full({x.shape()[1], x.shape()[0]}, 0, DType::f32, kOne));
          comm::gather_into({x}, out, dim);
          CHECK(to_vector<float>(out) == dense);
        }
      }
      CHECK(x.strides() == strides);
      CHECK(to_vector<float>(x) == dense);
    }
  }
}

TEST_CASE("scatter of a host tensor of 64 MiB takes no more than its own 16 MiB on each of four devices") {
  const std::int64_t mebibyte = 1 << 20;
  const std::vector<Device> devices{kZero, kOne, kTwo, kThree};
  const Tensor x = full({64, mebibyte}, 3, DType::u8, kHost);
  std::uint64_t before[4] = {};
  for (std::size_t i = 0; i < 4; ++i) (void)compute_stream(devices[i]), (void)peak_growth(devices[i], &before[i]);
  const std::vector<Tensor> pieces = comm::scatter(x, devices);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::uint64_t growth = peak_growth(devices[i], &before[i]);
    CHECK(growth >= 16u * mebibyte);
    CHECK(growth <= 17u * mebibyte);
    CHECK(pieces[i].shape() == Shape{16, mebibyte});
  }
  CHECK(to_vector<std::uint8_t>(pieces[3]).back() == 3);
}
