// SPDX-License-Identifier: Apache-2.0
// What the threads of one kernel do wrong with memory: found where every access of theirs is checked.
#include "tests/platform/bugs/bug.h"
#include "tests/platform/bugs/lab.h"

using namespace fanout::test;

namespace {

constexpr unsigned kThreads = 64;

cudaLaunchConfig_t blocks(const Lab& lab, unsigned count) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(count);
  config.blockDim = dim3(kThreads);
  config.stream = lab.first;
  return config;
}

// A pointer that the launch cannot look at.
struct Hidden {
  float* data;
};

__global__ void reverse_kernel(float* values, bool corrected) {
  __shared__ float all[kThreads];
  all[threadIdx.x] = values[threadIdx.x];  // bug: no_barrier_before_reading
  if (corrected) __syncthreads();
  values[threadIdx.x] = all[kThreads - 1 - threadIdx.x];  // bug: no_barrier_before_reading
}

__global__ void shift_kernel(float* values, bool corrected) {
  __shared__ float all[kThreads];
  all[threadIdx.x] = values[threadIdx.x];
  __syncthreads();
  const float next = all[(threadIdx.x + 1) % kThreads];  // bug: no_barrier_before_writing_again
  if (corrected) __syncthreads();
  all[threadIdx.x] = next;  // bug: no_barrier_before_writing_again
  values[threadIdx.x] = next;
}

// The lanes of a warp need not run in step.
__global__ void warp_kernel(float* values, bool corrected) {
  __shared__ float all[kThreads];
  all[threadIdx.x] = values[threadIdx.x];  // bug: warp_taken_for_lockstep
  if (corrected) __syncwarp();
  values[threadIdx.x] = all[threadIdx.x ^ 1];  // bug: warp_taken_for_lockstep
}

__global__ void sum_kernel(float* sum, const float* values, bool corrected) {
  const float value = values[blockIdx.x * blockDim.x + threadIdx.x];
  if (corrected) {
    atomicAdd(sum, value);
  } else {
    *sum += value;  // bug: sum_without_atomics
  }
}

__global__ void per_block_kernel(float* out, bool corrected) {
  if (threadIdx.x == 0) out[corrected ? blockIdx.x : 0] = static_cast<float>(blockIdx.x);  // bug: blocks_write_one_word
}

__global__ void reset_kernel(unsigned* counter, bool corrected) {
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    if (corrected) atomicExch(counter, 0u);
    if (!corrected) *counter = 0;  // bug: plain_write_beside_atomics
  }
  atomicAdd(counter, 1u);
}

// The block that comes last adds up what all have left: what they have left must be visible first.
__global__ void last_block_kernel(float* partial, unsigned* finished, float* total, bool corrected) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = 1;  // bug: no_fence_before_the_last_block
    if (corrected) __threadfence();
    last = atomicAdd(finished, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last || threadIdx.x > 0) return;
  float sum = 0;
  for (unsigned block = 0; block < gridDim.x; ++block) sum += partial[block];  // bug: no_fence_before_the_last_block
  *total = sum;
}

__global__ void read_kernel(float* target, const float* source, int last) {
  if (threadIdx.x == 0) target[0] = source[last];  // bug: read_beyond_the_end
}

__global__ void write_kernel(float* target, int last) {
  if (threadIdx.x == 0) target[last] = 1;  // bug: written_beyond_the_end
}

// A loop that a compiler makes a call of memcpy.
__global__ void copy_kernel(float* __restrict__ target, const float* __restrict__ source, int begin) {
  if (threadIdx.x != 0) return;
  for (int i = 0; i < 8; ++i) target[begin + i] = source[i];  // bug: copied_beyond_the_end
}

__global__ void read_hidden_kernel(float* target, Hidden source) {
  if (threadIdx.x == 0) target[0] = source.data[0];  // bug: hidden_pointer_of_another_device
}

__global__ void write_hidden_kernel(Hidden target) {
  if (threadIdx.x == 0) target.data[1] = 1;  // bug: hidden_pointer_to_freed_memory
}

__global__ void first_kernel(float* target, const float* source) {
  if (threadIdx.x == 0) target[0] = source[7];  // bug: never_written
}

}  // namespace

FANOUT_BUG(no_barrier_before_reading, "reverse_kernel", "race: block (0, 0, 0), thread (", "shared memory",
           "no barrier lies between them") {
  const Lab lab;
  const cudaLaunchConfig_t config = blocks(lab, 1);
  REQUIRE_OK(cudaLaunchKernelEx(&config, reverse_kernel, lab.a, corrected));
}

FANOUT_BUG(no_barrier_before_writing_again, "shift_kernel", "reads and block (0, 0, 0), thread (", "shared memory") {
  const Lab lab;
  const cudaLaunchConfig_t config = blocks(lab, 1);
  REQUIRE_OK(cudaLaunchKernelEx(&config, shift_kernel, lab.a, corrected));
}

FANOUT_BUG(warp_taken_for_lockstep, "warp_kernel", "race: block (0, 0, 0), thread (0, 0, 0) at", "shared memory") {
  const Lab lab;
  const cudaLaunchConfig_t config = blocks(lab, 1);
  REQUIRE_OK(cudaLaunchKernelEx(&config, warp_kernel, lab.a, corrected));
}

FANOUT_BUG(sum_without_atomics, "sum_kernel", "thread (0, 0, 0) at", "thread (1, 0, 0) at", "1024 bytes of cuda:0") {
  const Lab lab;
  const cudaLaunchConfig_t config = blocks(lab, 1);
  REQUIRE_OK(cudaLaunchKernelEx(&config, sum_kernel, lab.b, lab.a, corrected));
}

FANOUT_BUG(blocks_write_one_word, "per_block_kernel", "block (0, 0, 0), thread (0, 0, 0) at",
           "block (1, 0, 0), thread (0, 0, 0) at", "none orders the blocks of a launch") {
  const Lab lab;
  const cudaLaunchConfig_t config = blocks(lab, 2);
  REQUIRE_OK(cudaLaunchKernelEx(&config, per_block_kernel, lab.a, corrected));
}

FANOUT_BUG(plain_write_beside_atomics, "reset_kernel", "race:") {
  const Lab lab;
  const cudaLaunchConfig_t config = blocks(lab, 1);
  REQUIRE_OK(cudaLaunchKernelEx(&config, reset_kernel, reinterpret_cast<unsigned*>(lab.a), corrected));
}

FANOUT_BUG(no_fence_before_the_last_block, "last_block_kernel", "block (0, 0, 0), thread (0, 0, 0) at",
           "block (3, 0, 0), thread (0, 0, 0) at") {
  const Lab lab;
  const cudaLaunchConfig_t config = blocks(lab, 4);
  auto* const finished = reinterpret_cast<unsigned*>(lab.b);
  REQUIRE_OK(cudaLaunchKernelEx(&config, last_block_kernel, lab.a, finished, lab.b + 1, corrected));
}

FANOUT_BUG(read_beyond_the_end, "read_kernel", "block (0, 0, 0), thread (0, 0, 0) at", "reads 4 bytes at",
           "outside of any allocation (1024 bytes behind the start of 1024 bytes of cuda:0, allocated at") {
  const Lab lab;
  const cudaLaunchConfig_t config = blocks(lab, 1);
  const int last = corrected ? kCount - 1 : kCount;
  REQUIRE_OK(cudaLaunchKernelEx(&config, read_kernel, lab.b, lab.a, last));
}

FANOUT_BUG(written_beyond_the_end, "write_kernel", "writes 4 bytes at", "outside of any allocation") {
  const Lab lab;
  const cudaLaunchConfig_t config = blocks(lab, 1);
  const int last = corrected ? kCount - 1 : kCount;
  REQUIRE_OK(cudaLaunchKernelEx(&config, write_kernel, lab.b, last));
}

FANOUT_BUG(copied_beyond_the_end, "copy_kernel", "writes", "outside of any allocation") {
  const Lab lab;
  const cudaLaunchConfig_t config = blocks(lab, 1);
  const int begin = corrected ? kCount - 8 : kCount - 7;
  REQUIRE_OK(cudaLaunchKernelEx(&config, copy_kernel, lab.b, lab.a, begin));
}

FANOUT_BUG(hidden_pointer_of_another_device, "read_hidden_kernel", "on cuda:0",
           "memory of another device without peer access (1024 bytes of cuda:1, allocated at") {
  const Lab here(0), there(1);
  const cudaLaunchConfig_t config = blocks(here, 1);
  REQUIRE_OK(cudaLaunchKernelEx(&config, read_hidden_kernel, here.a, Hidden{corrected ? here.b : there.a}));
}

FANOUT_BUG(hidden_pointer_to_freed_memory, "write_hidden_kernel", "outside of any allocation", "freed at") {
  const Lab lab;
  float* block = nullptr;
  REQUIRE_OK(cudaMalloc(&block, kBytes));
  if (!corrected) REQUIRE_OK(cudaFree(block));  // bug: hidden_pointer_to_freed_memory
  const cudaLaunchConfig_t config = blocks(lab, 1);
  REQUIRE_OK(cudaLaunchKernelEx(&config, write_hidden_kernel, Hidden{block}));
  if (corrected) REQUIRE_OK(cudaFree(block));
}

FANOUT_BUG(never_written, "first_kernel", "reads what nobody has written", "bytes of cuda:0, allocated at") {
  const Lab lab;
  float* block = nullptr;
  REQUIRE_OK(cudaMalloc(&block, kBytes));
  if (corrected) REQUIRE_OK(cudaMemset(block, 0, kBytes));
  if (corrected) REQUIRE_OK(cudaDeviceSynchronize());
  const cudaLaunchConfig_t config = blocks(lab, 1);
  REQUIRE_OK(cudaLaunchKernelEx(&config, first_kernel, lab.a, block));
  REQUIRE_OK(cudaFree(block));
}
