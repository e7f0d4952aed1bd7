// SPDX-License-Identifier: Apache-2.0
// Threads of a block that wait for others in vain. On a GPU these kernels never end, or end with wrong numbers.
#include "tests/platform/bugs/bug.h"
#include "tests/platform/bugs/lab.h"

using namespace fanout::test;

namespace {

cudaLaunchConfig_t one_block(const Lab& lab, unsigned threads) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(threads);
  config.stream = lab.first;
  return config;
}

__global__ void rounds_kernel(float* values, bool corrected) {
  const int rounds = corrected || threadIdx.x < 32 ? 3 : 2;
  for (int round = 0; round < rounds; ++round) {
    values[threadIdx.x] += 1;
    __syncthreads();  // bug: more_rounds_for_some_threads
  }
  values[threadIdx.x] *= 2;
  __syncthreads();  // bug: more_rounds_for_some_threads
}

__global__ void branches_kernel(float* values, bool corrected) {
  if (corrected) {
    __syncthreads();
  } else if (threadIdx.x % 2 == 0) {
    __syncthreads();  // bug: different_barriers_in_branches
  } else {
    __syncthreads();  // bug: different_barriers_in_branches
  }
  values[threadIdx.x] = 1;
}

__global__ void mask_kernel(float* values, bool corrected) {
  const unsigned mask = corrected ? 0xffffffffu : 0x0000ffffu;
  float value = static_cast<float>(threadIdx.x);
  value += __shfl_xor_sync(mask, value, 1);  // bug: lane_outside_of_its_mask
  values[threadIdx.x] = value;
}

__global__ void early_kernel(float* values, int count, bool corrected) {
  const int i = static_cast<int>(threadIdx.x);
  if (!corrected && i >= count) {
    __syncwarp(0xffffffffu);  // bug: some_lanes_take_another_way
    return;
  }
  const float value = __shfl_xor_sync(0xffffffffu, static_cast<float>(i), 1);  // bug: some_lanes_take_another_way
  values[i] = value;
}

}  // namespace

FANOUT_BUG(more_rounds_for_some_threads, "barrier divergence in kernel", "rounds_kernel",
           "threads of the block meet at different barriers") {
  const Lab lab;
  const cudaLaunchConfig_t config = one_block(lab, 64);
  REQUIRE_OK(cudaLaunchKernelEx(&config, rounds_kernel, lab.a, corrected));
}

FANOUT_BUG(different_barriers_in_branches, "barrier divergence in kernel", "branches_kernel",
           "threads of the block meet at different barriers") {
  const Lab lab;
  const cudaLaunchConfig_t config = one_block(lab, 64);
  REQUIRE_OK(cudaLaunchKernelEx(&config, branches_kernel, lab.a, corrected));
}

FANOUT_BUG(lane_outside_of_its_mask, "barrier divergence in kernel", "mask_kernel",
           "a lane is not in the mask that it names") {
  const Lab lab;
  const cudaLaunchConfig_t config = one_block(lab, 32);
  REQUIRE_OK(cudaLaunchKernelEx(&config, mask_kernel, lab.a, corrected));
}

FANOUT_BUG(some_lanes_take_another_way, "barrier divergence in kernel", "early_kernel",
           "lanes of a warp ask for different things") {
  const Lab lab;
  const cudaLaunchConfig_t config = one_block(lab, 32);
  REQUIRE_OK(cudaLaunchKernelEx(&config, early_kernel, lab.a, 20, corrected));
}
