// SPDX-License-Identifier: Apache-2.0
// What is touched behind the end of a block, after its free, or by addresses that only a kernel sees: found without
// checks of every access.
#include "tests/platform/bugs/bug.h"
#include "tests/platform/bugs/lab.h"

using namespace fanout::test;

namespace {

// Addresses that only the kernel sees.
struct Buffers {
  float* target;
  float* source;
};

__global__ void copy_kernel(Buffers buffers, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) buffers.target[i] = buffers.source[i];
}

__global__ void set_target_kernel(Buffers buffers, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) buffers.target[i] = 1;
}

__global__ void set_kernel(float* values, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] = 1;
}

cudaLaunchConfig_t in_stream(cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(2);
  config.blockDim = dim3(kCount);
  config.stream = stream;
  return config;
}

}  // namespace

FANOUT_BUG(hidden_pointer_to_another_device, "work of cuda:0, queued at", "memory of cuda:1",
           "its device cannot reach that") {
  const Lab here(0), there(1);
  const cudaLaunchConfig_t config = in_stream(here.first);
  const Buffers buffers{here.a, corrected ? here.b : there.b};
  REQUIRE_OK(cudaLaunchKernelEx(&config, copy_kernel, buffers, kCount));  // bug: hidden_pointer_to_another_device
  REQUIRE_OK(cudaStreamSynchronize(here.first));
}

FANOUT_BUG(peer_access_of_the_other_direction, "work of cuda:0, queued at", "memory of cuda:1") {
  const Lab here(0), there(1);
  REQUIRE_OK(cudaSetDevice(corrected ? 0 : 1));
  REQUIRE_OK(cudaDeviceEnablePeerAccess(corrected ? 1 : 0, 0));
  REQUIRE_OK(cudaSetDevice(0));
  const cudaLaunchConfig_t config = in_stream(here.first);
  const Buffers buffers{here.a, there.b};
  REQUIRE_OK(cudaLaunchKernelEx(&config, copy_kernel, buffers, kCount));  // bug: peer_access_of_the_other_direction
  REQUIRE_OK(cudaStreamSynchronize(here.first));
}

FANOUT_BUG(one_element_too_many, "set_kernel on cuda:0, queued at",
           "has written 0 bytes behind the end of 1024 bytes") {
  const Lab lab;
  const cudaLaunchConfig_t config = in_stream(lab.first);
  const int count = corrected ? kCount : kCount + 1;
  REQUIRE_OK(cudaLaunchKernelEx(&config, set_kernel, lab.a, count));  // bug: one_element_too_many
  REQUIRE_OK(cudaStreamSynchronize(lab.first));
}

FANOUT_BUG(one_element_too_many_by_a_hidden_pointer, "something before the free has written 0 bytes behind",
           "1024 bytes of cuda:0, allocated at") {
  float* block = nullptr;
  REQUIRE_OK(cudaMalloc(&block, kBytes));  // bug: one_element_too_many_by_a_hidden_pointer
  {
    const Lab lab;
    REQUIRE_OK(cudaMemset(block, 0, kBytes));
    const cudaLaunchConfig_t config = in_stream(lab.first);
    const int count = corrected ? kCount : kCount + 1;
    REQUIRE_OK(cudaDeviceSynchronize());
    REQUIRE_OK(cudaLaunchKernelEx(&config, set_target_kernel, Buffers{block, nullptr}, count));
    REQUIRE_OK(cudaStreamSynchronize(lab.first));
  }
  REQUIRE_OK(cudaFree(block));  // bug: one_element_too_many_by_a_hidden_pointer
}

FANOUT_BUG(pinned_memory_written_behind_its_end, "something before the free has written 0 bytes behind the end of 1024",
           "of pinned memory, allocated at") {
  float* block = nullptr;
  REQUIRE_OK(cudaMallocHost(&block, kBytes));  // bug: pinned_memory_written_behind_its_end
  for (int i = 0; i < (corrected ? kCount : kCount + 1); ++i) block[i] = 1;
  REQUIRE_OK(cudaFreeHost(block));  // bug: pinned_memory_written_behind_its_end
}

FANOUT_BUG(freed_device_memory_read_by_the_host, "the host reads memory of cuda:0", "freed at") {
  int* counter = nullptr;
  REQUIRE_OK(cudaMalloc(&counter, sizeof *counter));
  REQUIRE_OK(cudaMemset(counter, 0, sizeof *counter));
  int value = 1;
  REQUIRE_OK(cudaMemcpy(&value, counter, sizeof value, cudaMemcpyDeviceToHost));
  REQUIRE_OK(cudaFree(counter));  // bug: freed_device_memory_read_by_the_host
  if (!corrected) value = *static_cast<const volatile int*>(counter);
  REQUIRE(value == 0);
}
