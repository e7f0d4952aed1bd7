// SPDX-License-Identifier: Apache-2.0
// __syncthreads, __syncwarp, and shared memory between them.
#include <numeric>
#include <vector>

#include "kernels/launch.cuh"
#include "tests/platform/simt/device_array.h"

using fanout::kernels::launch;

namespace {

// Each round every thread takes its neighbour's value, so after blockDim.x rounds everyone has its own again.
__global__ void rotate_kernel(int* values, int rounds) {
  __shared__ int cells[1024];
  const unsigned next = (threadIdx.x + 1) % blockDim.x;
  cells[threadIdx.x] = values[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  for (int round = 0; round < rounds; ++round) {
    const int value = cells[next];
    __syncthreads();
    cells[threadIdx.x] = value;
    __syncthreads();
  }
  values[blockIdx.x * blockDim.x + threadIdx.x] = cells[threadIdx.x];
}

// Threads below `leaving` finish before the barrier; the others count how many passed it.
__global__ void leave_early_kernel(int* passed, unsigned leaving) {
  if (threadIdx.x < leaving) return;
  __syncthreads();
  atomicAdd(passed, 1);
  __syncthreads();
  if (threadIdx.x + 1 == blockDim.x) passed[1] = *passed;
}

// The other way round: the last threads finish first.
__global__ void leave_late_kernel(int* passed, unsigned staying) {
  if (threadIdx.x >= staying) return;
  __syncthreads();
  atomicAdd(passed, 1);
  __syncthreads();
  if (threadIdx.x == 0) passed[1] = *passed;
}

// Each warp goes its own way between barriers, with a different number of its own meetings.
__global__ void diverge_between_barriers_kernel(int* out) {
  __shared__ int cells[1024];
  const int warp = static_cast<int>(threadIdx.x) / warpSize;
  int value = static_cast<int>(threadIdx.x);
  for (int round = 0; round < warp; ++round) value = __shfl_xor_sync(0xffffffffu, value, 1);
  cells[threadIdx.x] = value;
  __syncthreads();
  out[threadIdx.x] = cells[blockDim.x - 1 - threadIdx.x];
}

// In odd blocks alone do the threads meet.
__global__ void some_blocks_meet_kernel(int* out) {
  __shared__ int first;
  if (blockIdx.x % 2 == 1) {
    if (threadIdx.x == 0) first = static_cast<int>(blockIdx.x);
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = first;
  } else {
    out[blockIdx.x * blockDim.x + threadIdx.x] = -1;
  }
}

// Halves of a warp meet by themselves, the odd half more often.
__global__ void half_warps_kernel(int* out) {
  __shared__ int cells[32];
  const int half = static_cast<int>(threadIdx.x) / 16;
  const unsigned mask = half == 0 ? 0x0000ffffu : 0xffff0000u;
  int value = static_cast<int>(threadIdx.x);
  for (int round = 0; round < 1 + half; ++round) {
    cells[threadIdx.x] = value;
    __syncwarp(mask);
    value = cells[(threadIdx.x + 1) % 16 + 16 * half];
    __syncwarp(mask);
  }
  out[threadIdx.x] = value;
}

__global__ void dynamic_shared_kernel(int* out) {
  FANOUT_DYNAMIC_SHARED(int, cells);
  cells[threadIdx.x] = static_cast<int>(blockIdx.x * 1000 + threadIdx.x);
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = cells[blockDim.x - 1 - threadIdx.x];
}

// A tile in two dimensions, as a transposing kernel has it.
__global__ void transpose_kernel(float* y, const float* x, int rows, int cols) {
  __shared__ float tile[8][9];
  int col = static_cast<int>(blockIdx.x * 8 + threadIdx.x), row = static_cast<int>(blockIdx.y * 8 + threadIdx.y);
  if (row < rows && col < cols) tile[threadIdx.y][threadIdx.x] = x[row * cols + col];
  __syncthreads();
  row = static_cast<int>(blockIdx.x * 8 + threadIdx.y);
  col = static_cast<int>(blockIdx.y * 8 + threadIdx.x);
  if (row < cols && col < rows) y[row * rows + col] = tile[threadIdx.x][threadIdx.y];
}

std::vector<int> count_up(int n) {
  std::vector<int> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

}  // namespace

TEST_CASE("threads see what others wrote to shared memory before a barrier") {
  for (const int threads : {1, 2, 31, 32, 33, 256, 1024}) {
    CAPTURE(threads);
    DeviceArray<int> values(count_up(3 * threads));
    REQUIRE(launch<rotate_kernel>(nullptr, {dim3(3), dim3(static_cast<unsigned>(threads))}, values.data(), 1) ==
            cudaSuccess);
    std::vector<int> expected;
    for (int block = 0; block < 3; ++block) {
      for (int thread = 0; thread < threads; ++thread) expected.push_back(block * threads + (thread + 1) % threads);
    }
    CHECK(values.read() == expected);
  }
  DeviceArray<int> values(count_up(2 * 64));
  REQUIRE(launch<rotate_kernel>(nullptr, {dim3(2), dim3(64)}, values.data(), 64) == cudaSuccess);
  CHECK(values.read() == count_up(2 * 64));
}

TEST_CASE("a barrier does not wait for threads that have finished") {
  for (const unsigned some : {1u, 5u, 31u, 32u, 33u, 63u, 95u}) {
    CAPTURE(some);
    DeviceArray<int> early(2), late(2);
    REQUIRE(launch<leave_early_kernel>(nullptr, {dim3(1), dim3(96)}, early.data(), some) == cudaSuccess);
    CHECK(early.read() == std::vector<int>(2, 96 - static_cast<int>(some)));
    REQUIRE(launch<leave_late_kernel>(nullptr, {dim3(1), dim3(96)}, late.data(), some) == cudaSuccess);
    CHECK(late.read() == std::vector<int>(2, static_cast<int>(some)));
  }
}

TEST_CASE("warps may go different ways between barriers") {
  DeviceArray<int> out(1024, -1);
  REQUIRE(launch<diverge_between_barriers_kernel>(nullptr, {dim3(1), dim3(1024)}, out.data()) == cudaSuccess);
  const std::vector<int> values = out.read();
  for (int thread = 0; thread < 1024; ++thread) {
    const int source = 1023 - thread;
    REQUIRE(values[static_cast<std::size_t>(thread)] == (source / 32 % 2 == 1 ? source ^ 1 : source));
  }
}

TEST_CASE("each block decides by itself whether its threads meet") {
  DeviceArray<int> out(6 * 40);
  REQUIRE(launch<some_blocks_meet_kernel>(nullptr, {dim3(6), dim3(40)}, out.data()) == cudaSuccess);
  const std::vector<int> values = out.read();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int block = static_cast<int>(i) / 40;
    REQUIRE(values[i] == (block % 2 == 1 ? block : -1));
  }
}

TEST_CASE("parts of a warp meet by themselves") {
  DeviceArray<int> out(32);
  REQUIRE(launch<half_warps_kernel>(nullptr, {dim3(1), dim3(32)}, out.data()) == cudaSuccess);
  const std::vector<int> values = out.read();
  for (int lane = 0; lane < 32; ++lane) {
    const int half = lane / 16;
    REQUIRE(values[static_cast<std::size_t>(lane)] == (lane + 1 + half) % 16 + 16 * half);
  }
}

TEST_CASE("dynamic shared memory belongs to the block") {
  DeviceArray<int> out(4 * 100);
  REQUIRE(launch<dynamic_shared_kernel>(nullptr, {dim3(4), dim3(100), 100 * sizeof(int)}, out.data()) == cudaSuccess);
  const std::vector<int> values = out.read();
  for (int i = 0; i < 400; ++i) REQUIRE(values[static_cast<std::size_t>(i)] == i / 100 * 1000 + 99 - i % 100);
}

TEST_CASE("a tile in shared memory transposes a matrix whose sides are no multiples of the tile") {
  constexpr int kRows = 13, kCols = 21;
  std::vector<float> x(kRows * kCols);
  std::iota(x.begin(), x.end(), 0.0f);
  DeviceArray<float> device_x(x), y(x.size());
  REQUIRE(launch<transpose_kernel>(nullptr, {dim3(3, 2), dim3(8, 8)}, y.data(), device_x.data(), kRows, kCols) ==
          cudaSuccess);
  const std::vector<float> values = y.read();
  for (int row = 0; row < kRows; ++row) {
    for (int col = 0; col < kCols; ++col) {
      REQUIRE(values[static_cast<std::size_t>(col * kRows + row)] == x[static_cast<std::size_t>(row * kCols + col)]);
    }
  }
}
