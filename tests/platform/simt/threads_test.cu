// SPDX-License-Identifier: Apache-2.0
// Which threads a launch has, and what reaches them.
#include <cstdint>
#include <tuple>
#include <vector>

#include "kernels/launch.cuh"
#include "tests/platform/simt/device_array.h"

using fanout::kernels::launch;

namespace {

// One cell for each thread of the grid, in the order of a nested loop over blocks, then threads.
__device__ int cell_of_thread() {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  return static_cast<int>(block * blockDim.x * blockDim.y * blockDim.z + thread);
}

__global__ void count_visits_kernel(int* visits) {
  visits[cell_of_thread()] += 1;
}

__global__ void count_visits_after_barrier_kernel(int* visits) {
  __syncthreads();
  visits[cell_of_thread()] += 1;
}

// Threads that read their own indices after others have run in between.
__global__ void indices_after_barriers_kernel(int* wrong) {
  const unsigned x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
  for (int round = 0; round < 3; ++round) {
    __syncthreads();
    if (threadIdx.x != x || threadIdx.y != y || threadIdx.z != z) wrong[cell_of_thread()] = 1;
  }
}

template <class A, class B>
__global__ void convert_kernel(A* a, B* b, A x, B y) {
  *a = x;
  *b = y;
}

__global__ void nothing_kernel() {}

const std::vector<std::tuple<dim3, dim3>> kShapes = {{dim3(1), dim3(1)},
                                                     {dim3(1), dim3(1024)},
                                                     {dim3(1000), dim3(1)},
                                                     {dim3(7), dim3(33)},
                                                     {dim3(3, 2), dim3(32, 8)},
                                                     {dim3(2, 3, 4), dim3(5, 3, 2)},
                                                     {dim3(1, 1, 3), dim3(1, 1, 64)},
                                                     {dim3(1, 5), dim3(1, 40)},
                                                     {dim3(2, 2), dim3(16, 4, 4)}};

}  // namespace

TEST_CASE("every thread of every block runs once, whatever the shape") {
  for (const auto& [grid, block] : kShapes) {
    const std::size_t cells = std::size_t{grid.x} * grid.y * grid.z * block.x * block.y * block.z;
    CAPTURE(grid.x, grid.y, grid.z, block.x, block.y, block.z);
    DeviceArray<int> visits(cells), visits_after_barrier(cells);
    REQUIRE(launch<count_visits_kernel>(nullptr, {grid, block}, visits.data()) == cudaSuccess);
    REQUIRE(launch<count_visits_after_barrier_kernel>(nullptr, {grid, block}, visits_after_barrier.data()) ==
            cudaSuccess);
    CHECK(visits.read() == std::vector<int>(cells, 1));
    CHECK(visits_after_barrier.read() == std::vector<int>(cells, 1));
  }
}

TEST_CASE("a thread keeps its indices across barriers") {
  for (const auto& [grid, block] : kShapes) {
    const std::size_t cells = std::size_t{grid.x} * grid.y * grid.z * block.x * block.y * block.z;
    CAPTURE(grid.x, grid.y, grid.z, block.x, block.y, block.z);
    DeviceArray<int> wrong(cells);
    REQUIRE(launch<indices_after_barriers_kernel>(nullptr, {grid, block}, wrong.data()) == cudaSuccess);
    CHECK(wrong.read() == std::vector<int>(cells, 0));
  }
}

TEST_CASE("arguments become the types of the kernel's parameters") {
  DeviceArray<double> a(1);
  DeviceArray<std::int64_t> b(1);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  REQUIRE(cudaLaunchKernelEx(&config, (convert_kernel<double, std::int64_t>), a.data(), b.data(), 3, short{-7}) ==
          cudaSuccess);
  CHECK(a.read()[0] == 3.0);
  CHECK(b.read()[0] == -7);
}

TEST_CASE("a kernel may be a pointer that is known only when the program runs") {
  DeviceArray<int> visits(64);
  void (*const kernels[])(int*) = {count_visits_kernel, count_visits_after_barrier_kernel};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(2);
  config.blockDim = dim3(32);
  for (auto* kernel : kernels) REQUIRE(cudaLaunchKernelEx(&config, kernel, visits.data()) == cudaSuccess);
  CHECK(visits.read() == std::vector<int>(64, 2));
}

TEST_CASE("a launch refuses blocks of no threads or of more than 1024") {
  CHECK(launch<nothing_kernel>(nullptr, {dim3(1), dim3(1024)}) == cudaSuccess);
  CHECK(launch<nothing_kernel>(nullptr, {dim3(1), dim3(1025)}) == cudaErrorInvalidConfiguration);
  CHECK(launch<nothing_kernel>(nullptr, {dim3(1), dim3(32, 33)}) == cudaErrorInvalidConfiguration);
  CHECK(launch<nothing_kernel>(nullptr, {dim3(0), dim3(32)}) == cudaErrorInvalidConfiguration);
  static_cast<void>(cudaGetLastError());
}
