// SPDX-License-Identifier: Apache-2.0
// Atomic functions, within a block and between host threads.
#include <atomic>
#include <thread>
#include <vector>

#include "kernels/launch.cuh"
#include "tests/platform/simt/device_array.h"

using fanout::kernels::launch;

namespace {

template <class T>
__global__ void add_kernel(T* total, int rounds) {
  for (int round = 0; round < rounds; ++round) atomicAdd(total, T(1));
}

__global__ void histogram_kernel(int* counts, int n) {
  __shared__ int block_counts[7];
  if (threadIdx.x < 7) block_counts[threadIdx.x] = 0;
  __syncthreads();
  for (auto i : fanout::kernels::grid_stride(n)) atomicAdd(&block_counts[i % 7], 1);
  __syncthreads();
  if (threadIdx.x < 7) atomicAdd(&counts[threadIdx.x], block_counts[threadIdx.x]);
}

// cells: max, min, exchange, or, and, xor, increment, decrement, subtract
__global__ void change_kernel(unsigned* cells, unsigned* tickets) {
  const unsigned mine = threadIdx.x;
  atomicMax(&cells[0], mine);
  atomicMin(&cells[1], mine);
  atomicExch(&cells[2], 7u);
  atomicOr(&cells[3], 1u << (mine % 32));
  atomicAnd(&cells[4], ~(1u << (mine % 32)));
  atomicXor(&cells[5], mine);
  tickets[mine] = atomicInc(&cells[6], 9u);
  atomicDec(&cells[7], 9u);
  atomicSub(&cells[8], 1u);
}

__global__ void signed_extremes_kernel(int* cells) {
  const int mine = static_cast<int>(threadIdx.x) - 50;
  atomicMax(&cells[0], mine);
  atomicMin(&cells[1], mine);
}

// The greatest float by compare-and-swap, as one writes it where there is no atomicMax for float.
__global__ void greatest_float_kernel(unsigned* bits, const float* x) {
  const float mine = x[threadIdx.x];
  unsigned seen = *bits;
  while (__uint_as_float(seen) < mine) {
    const unsigned before = atomicCAS(bits, seen, __float_as_uint(mine));
    if (before == seen) break;
    seen = before;
  }
}

// The block that finishes last adds up what all blocks left.
__global__ void last_block_kernel(int* partial, unsigned* finished, int* total) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = static_cast<int>(blockIdx.x) + 1;
    __threadfence();
    last = atomicInc(finished, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    int sum = 0;
    for (unsigned block = 0; block < gridDim.x; ++block) sum += partial[block];
    *total = sum;
  }
}

}  // namespace

TEMPLATE_TEST_CASE("every atomic addition counts", "", int, unsigned, unsigned long long, float, double) {
  DeviceArray<TestType> total(1);
  REQUIRE(launch<add_kernel<TestType>>(nullptr, {dim3(13), dim3(77)}, total.data(), 3) == cudaSuccess);
  CHECK(total.read()[0] == TestType(13 * 77 * 3));
}

TEMPLATE_TEST_CASE("every atomic addition counts when two host threads launch on two streams", "", int, float) {
  DeviceArray<TestType> total(1);
  std::atomic<int> arrived{0};
  const auto run = [&](bool* good) {
    cudaStream_t stream = nullptr;
    *good = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess;
    arrived += 1;
    while (arrived < 2) std::this_thread::yield();
    for (int i = 0; i < 20; ++i) {
      *good = *good && launch<add_kernel<TestType>>(stream, {dim3(4), dim3(128)}, total.data(), 500) == cudaSuccess;
    }
    *good = *good && cudaStreamSynchronize(stream) == cudaSuccess && cudaStreamDestroy(stream) == cudaSuccess;
  };
  bool first_good = false, second_good = false;
  std::thread first(run, &first_good), second(run, &second_good);
  first.join();
  second.join();
  CHECK(first_good);
  CHECK(second_good);
  CHECK(total.read()[0] == TestType(2 * 20 * 4 * 128 * 500));
}

TEST_CASE("a histogram counts in shared memory and then in global memory") {
  for (const unsigned blocks : {1u, 5u}) {
    DeviceArray<int> counts(7);
    REQUIRE(launch<histogram_kernel>(nullptr, {dim3(blocks), dim3(64)}, counts.data(), 10003) == cudaSuccess);
    CHECK(counts.read() == std::vector<int>{1429, 1429, 1429, 1429, 1429, 1429, 1429});
  }
}

TEST_CASE("atomic functions change a cell as CUDA says and return what was there") {
  DeviceArray<unsigned> cells(std::vector<unsigned>{3, 50, 0, 0, 0xffffffffu, 0, 0, 0, 1000}), tickets(100);
  REQUIRE(launch<change_kernel>(nullptr, {dim3(1), dim3(100)}, cells.data(), tickets.data()) == cudaSuccess);
  CHECK(cells.read() == std::vector<unsigned>{99, 0, 7, 0xffffffffu, 0, 0, 0, 0, 900});
  std::vector<int> times(10);
  for (const unsigned ticket : tickets.read()) ++times.at(ticket);
  CHECK(times == std::vector<int>(10, 10));  // the counter wraps after 9
  DeviceArray<int> extremes(2);
  REQUIRE(launch<signed_extremes_kernel>(nullptr, {dim3(1), dim3(100)}, extremes.data()) == cudaSuccess);
  CHECK(extremes.read() == std::vector<int>{49, -50});
}

TEST_CASE("compare-and-swap finds the greatest float") {
  std::vector<float> x(200);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 200) * 0.25f;
  DeviceArray<float> device_x(x);
  DeviceArray<unsigned> bits(1);
  REQUIRE(launch<greatest_float_kernel>(nullptr, {dim3(1), dim3(200)}, bits.data(), device_x.data()) == cudaSuccess);
  CHECK(bits.read()[0] == 0x4247'0000u);  // 49.75
}

TEST_CASE("the last block to finish sees what all others wrote") {
  DeviceArray<int> partial(37), total(1);
  DeviceArray<unsigned> finished(1);
  REQUIRE(launch<last_block_kernel>(nullptr, {dim3(37), dim3(64)}, partial.data(), finished.data(), total.data()) ==
          cudaSuccess);
  CHECK(total.read()[0] == 37 * 38 / 2);
  CHECK(finished.read()[0] == 0);
}
