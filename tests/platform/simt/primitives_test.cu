// SPDX-License-Identifier: Apache-2.0
// The pieces that kernels are built from.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/launch.cuh"
#include "tests/platform/simt/device_array.h"

using namespace fanout::kernels;

namespace {

__global__ void visit_grid_kernel(int* visits, std::int64_t n) {
  for (auto i : grid_stride(n)) visits[i] += 1;
}

__global__ void visit_block_kernel(int* visits, std::int64_t n) {
  visits += blockIdx.x * n;
  for (auto i : block_stride(n)) visits[i] += 1;
}

template <class T, class Op>
__global__ void warp_reduce_kernel(T* y, const T* x, Op op) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = warp_reduce(x[i], op);
}

// Twice in a row, so that the second must not disturb the first.
template <class T>
__global__ void block_reduce_kernel(T* sums, T* greatest, const T* x, T lowest) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  sums[i] = block_reduce(x[i], Sum{}, T(0));
  greatest[i] = block_reduce(x[i], Max{}, lowest);
}

// A pair larger than a register, as an argmax or a running mean has it.
struct Extreme {
  double value;
  std::int64_t index;
};

struct LaterIndexLoses {
  __host__ __device__ Extreme operator()(Extreme a, Extreme b) const {
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
  }
};

__global__ void argmax_kernel(std::int64_t* y, const double* x, std::int64_t cols) {
  x += blockIdx.x * cols;
  Extreme mine{-1e300, cols};
  for (auto i : block_stride(cols)) mine = LaterIndexLoses{}(mine, {x[i], i});
  mine = block_reduce(mine, LaterIndexLoses{}, Extreme{-1e300, cols});
  if (threadIdx.x == 0) y[blockIdx.x] = mine.index;
}

template <class T>
__global__ void row_sums_kernel(T* y, const T* x, std::int64_t cols) {
  T sum = T(0);
  for (auto i : block_stride(cols)) sum += x[blockIdx.x * cols + i];
  sum = block_reduce(sum, Sum{}, T(0));
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

// What the butterfly of shuffles gives to each lane, by its definition.
template <class T, class Op>
std::vector<T> butterfly(std::vector<T> lanes, Op op) {
  for (std::size_t offset = 16; offset > 0; offset /= 2) {
    std::vector<T> next(32);
    for (std::size_t lane = 0; lane < 32; ++lane) next[lane] = op(lanes[lane], lanes[lane ^ offset]);
    lanes = next;
  }
  return lanes;
}

// A block's tree: each warp filled up to 32 lanes, then the warps' results.
template <class T, class Op>
T block_tree(const std::vector<T>& threads, Op op, T identity) {
  std::vector<T> warps(32, identity);
  for (std::size_t begin = 0; begin < threads.size(); begin += 32) {
    std::vector<T> lanes(32, identity);
    std::copy(threads.begin() + static_cast<std::ptrdiff_t>(begin),
              threads.begin() + static_cast<std::ptrdiff_t>(std::min(begin + 32, threads.size())), lanes.begin());
    warps[begin / 32] = butterfly(lanes, op)[0];
  }
  return butterfly(warps, op)[0];
}

template <class T>
std::vector<T> noise(std::size_t n) {
  std::vector<T> values(n);
  std::uint32_t state = 12345;
  for (T& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<T>(static_cast<std::int32_t>(state)) / T(65536);
  }
  return values;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

constexpr int kSizes[] = {0, 1, 31, 32, 33, 255, 256, 257, 1023, 1025, 70001};

}  // namespace

TEST_CASE("grid_stride visits every index once") {
  for (const std::int64_t n : kSizes) {
    for (const unsigned blocks : {1u, 2u, 7u, 300u}) {
      for (const unsigned threads : {1u, 32u, 33u, 256u, 1024u}) {
        CAPTURE(n, blocks, threads);
        DeviceArray<int> visits(static_cast<std::size_t>(n) + 1);  // and nothing after them
        REQUIRE(launch<visit_grid_kernel>(nullptr, {dim3(blocks), dim3(threads)}, visits.data(), n) == cudaSuccess);
        std::vector<int> expected(static_cast<std::size_t>(n) + 1, 1);
        expected.back() = 0;
        REQUIRE(visits.read() == expected);
      }
    }
    if (n == 0) continue;
    DeviceArray<int> visits(static_cast<std::size_t>(n));
    REQUIRE(launch<visit_grid_kernel>(nullptr, elementwise_shape(n), visits.data(), n) == cudaSuccess);
    REQUIRE(visits.read() == std::vector<int>(static_cast<std::size_t>(n), 1));
  }
}

TEST_CASE("block_stride visits every index of its block once") {
  for (const std::int64_t n : kSizes) {
    for (const unsigned threads : {1u, 32u, 33u, 256u, 1024u}) {
      CAPTURE(n, threads);
      DeviceArray<int> visits(3 * static_cast<std::size_t>(n) + 1);
      REQUIRE(launch<visit_block_kernel>(nullptr, {dim3(3), dim3(threads)}, visits.data(), n) == cudaSuccess);
      std::vector<int> expected(3 * static_cast<std::size_t>(n) + 1, 1);
      expected.back() = 0;
      REQUIRE(visits.read() == expected);
    }
  }
}

TEST_CASE("shapes have a block for every row and whole warps or one thread") {
  for (const std::int64_t cols : kSizes) {
    const LaunchShape shape = row_shape(1000000, cols);
    CHECK(shape.grid.x == 1000000);
    CHECK((shape.block.x == 1 || (shape.block.x % 32 == 0 && shape.block.x <= 512)));
  }
  for (const std::int64_t n : {std::int64_t{1}, std::int64_t{257}, std::int64_t{1} << 40}) {
    const LaunchShape shape = elementwise_shape(n);
    CHECK(shape.grid.x >= 1);
    CHECK(shape.grid.x <= 65535);
    CHECK((shape.block.x == 1 || shape.block.x % 32 == 0));
  }
}

TEMPLATE_TEST_CASE("warp_reduce gives every lane the butterfly's result, bit by bit", "", int, std::int64_t, float,
                   double) {
  const std::vector<TestType> x = noise<TestType>(3 * 64);
  DeviceArray<TestType> device_x(x), sums(x.size()), greatest(x.size());
  REQUIRE(launch<warp_reduce_kernel<TestType, Sum>>(nullptr, {dim3(3), dim3(64)}, sums.data(), device_x.data(),
                                                    Sum{}) == cudaSuccess);
  REQUIRE(launch<warp_reduce_kernel<TestType, Max>>(nullptr, {dim3(3), dim3(64)}, greatest.data(), device_x.data(),
                                                    Max{}) == cudaSuccess);
  std::vector<TestType> expected_sums, expected_greatest;
  for (std::size_t begin = 0; begin < x.size(); begin += 32) {
    const std::vector<TestType> lanes(x.begin() + static_cast<std::ptrdiff_t>(begin),
                                      x.begin() + static_cast<std::ptrdiff_t>(begin + 32));
    for (const TestType sum : butterfly(lanes, [](TestType a, TestType b) { return a + b; })) {
      expected_sums.push_back(sum);
    }
    expected_greatest.insert(expected_greatest.end(), 32, *std::max_element(lanes.begin(), lanes.end()));
  }
  CHECK(same_bits(sums.read(), expected_sums));
  CHECK(same_bits(greatest.read(), expected_greatest));
}

TEMPLATE_TEST_CASE("block_reduce gives every thread the tree's result, bit by bit, at every block size", "", int,
                   std::int64_t, float, double) {
  for (const std::size_t threads : {1, 2, 3, 31, 32, 33, 64, 100, 256, 511, 512, 1000, 1024}) {
    CAPTURE(threads);
    const std::vector<TestType> x = noise<TestType>(2 * threads);
    const TestType lowest = std::numeric_limits<TestType>::lowest();
    DeviceArray<TestType> device_x(x), sums(x.size()), greatest(x.size());
    REQUIRE(launch<block_reduce_kernel<TestType>>(nullptr, {dim3(2), dim3(static_cast<unsigned>(threads))}, sums.data(),
                                                  greatest.data(), device_x.data(), lowest) == cudaSuccess);
    std::vector<TestType> expected_sums, expected_greatest;
    for (std::size_t block = 0; block < 2; ++block) {
      const std::vector<TestType> mine(x.begin() + static_cast<std::ptrdiff_t>(block * threads),
                                       x.begin() + static_cast<std::ptrdiff_t>((block + 1) * threads));
      const TestType sum = block_tree(
          mine, [](TestType a, TestType b) { return a + b; }, TestType(0));
      expected_sums.insert(expected_sums.end(), threads, sum);
      expected_greatest.insert(expected_greatest.end(), threads, *std::max_element(mine.begin(), mine.end()));
    }
    CHECK(same_bits(sums.read(), expected_sums));
    CHECK(same_bits(greatest.read(), expected_greatest));
  }
}

TEST_CASE("block_reduce takes types larger than a register") {
  constexpr std::int64_t kRows = 5, kCols = 700;
  std::vector<double> x = noise<double>(kRows * kCols);
  x[2 * kCols + 300] = x[2 * kCols + 17] = 1e9;  // the first of two equal ones
  std::vector<std::int64_t> expected;
  for (std::int64_t row = 0; row < kRows; ++row) {
    expected.push_back(std::max_element(x.begin() + row * kCols, x.begin() + (row + 1) * kCols) -
                       (x.begin() + row * kCols));
  }
  DeviceArray<double> device_x(x);
  for (const unsigned threads : {1u, 32u, 100u, 256u}) {
    CAPTURE(threads);
    DeviceArray<std::int64_t> y(kRows);
    REQUIRE(launch<argmax_kernel>(nullptr, {dim3(kRows), dim3(threads)}, y.data(), device_x.data(), kCols) ==
            cudaSuccess);
    CHECK(y.read() == expected);
  }
}

TEST_CASE("Max gives NaN as soon as one of its arguments is NaN") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t place = 0; place < 64; place += 21) {
    std::vector<float> x(64, 1.0f);
    x[place] = nan;
    DeviceArray<float> device_x(x), sums(64), greatest(64);
    REQUIRE(launch<block_reduce_kernel<float>>(nullptr, {dim3(1), dim3(64)}, sums.data(), greatest.data(),
                                               device_x.data(), -1e30f) == cudaSuccess);
    for (const float value : greatest.read()) CHECK(std::isnan(value));
  }
}

TEMPLATE_TEST_CASE("sums of rows of whole numbers are exact in the shape for rows", "", float, double) {
  for (const std::int64_t cols : {1, 31, 32, 33, 127, 128, 129, 1023, 1025, 5000}) {
    CAPTURE(cols);
    constexpr std::int64_t kRows = 7;
    std::vector<TestType> x(static_cast<std::size_t>(kRows * cols)), expected;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<TestType>(i * 7919 % 101);
    for (std::int64_t row = 0; row < kRows; ++row) {
      TestType sum = 0;
      for (std::int64_t col = 0; col < cols; ++col) sum += x[static_cast<std::size_t>(row * cols + col)];
      expected.push_back(sum);
    }
    DeviceArray<TestType> device_x(x), y(kRows);
    REQUIRE(launch<row_sums_kernel<TestType>>(nullptr, row_shape(kRows, cols), y.data(), device_x.data(), cols) ==
            cudaSuccess);
    CHECK(y.read() == expected);
  }
}
