// SPDX-License-Identifier: Apache-2.0
// Memory and handles that are not what the program takes them for.
#include <cublas_v2.h>

#include <utility>

#include "tests/platform/bugs/bug.h"
#include "tests/platform/bugs/lab.h"

using namespace fanout::test;

namespace {

constexpr float kFactor = 2;

struct Blas {
  explicit Blas(int device_) : device(device_) {
    const OnDevice current(device);
    REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  }
  ~Blas() { (void)cublasDestroy(handle); }
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  int device;
  cublasHandle_t handle = nullptr;
};

}  // namespace

FANOUT_BUG(freed_twice, "cudaFree(",
           "no allocation that this call frees starts there (1024 bytes of cuda:0, allocated at", "freed at") {
  float* block = nullptr;
  REQUIRE_OK(cudaMalloc(&block, kBytes));  // bug: freed_twice
  REQUIRE_OK(cudaFree(block));             // bug: freed_twice
  if (!corrected) (void)cudaFree(block);   // bug: freed_twice
}

FANOUT_BUG(freed_twice_in_a_stream, "cudaFreeAsync(", "no allocation that this call frees starts there") {
  float* block = nullptr;
  REQUIRE_OK(cudaMallocAsync(&block, kBytes, nullptr));  // bug: freed_twice_in_a_stream
  REQUIRE_OK(cudaFreeAsync(block, nullptr));             // bug: freed_twice_in_a_stream
  if (!corrected) (void)cudaFreeAsync(block, nullptr);   // bug: freed_twice_in_a_stream
}

FANOUT_BUG(freed_in_the_middle, "cudaFree(", "16 bytes behind the start of 1024 bytes of cuda:0, allocated at") {
  float* block = nullptr;
  REQUIRE_OK(cudaMalloc(&block, kBytes));
  (void)cudaFree(corrected ? block : block + 4);  // bug: freed_in_the_middle
}

FANOUT_BUG(pinned_memory_freed_as_device_memory, "cudaFree(", "1024 bytes of pinned memory, allocated at") {
  float* block = nullptr;
  REQUIRE_OK(cudaMallocHost(&block, kBytes));
  (void)(corrected ? cudaFreeHost(block) : cudaFree(block));  // bug: pinned_memory_freed_as_device_memory
}

FANOUT_BUG(used_after_free, "cublasSscal at", "memory of this device that is not allocated (1024 bytes of cuda:0",
           "freed at") {
  const Blas blas(0);
  float* block = nullptr;
  REQUIRE_OK(cudaMalloc(&block, kBytes));
  REQUIRE_OK(cudaMemset(block, 0, kBytes));
  if (!corrected) REQUIRE_OK(cudaFree(block));                 // bug: used_after_free
  (void)cublasSscal(blas.handle, kCount, &kFactor, block, 1);  // bug: used_after_free
  if (corrected) REQUIRE_OK(cudaFree(block));
}

FANOUT_BUG(used_after_free_beside_a_new_block, "cublasSscal at", "memory of this device that is not allocated",
           "freed at") {
  const Blas blas(0);
  float *old = nullptr, *fresh = nullptr;
  REQUIRE_OK(cudaMalloc(&old, kBytes));
  REQUIRE_OK(cudaMemset(old, 0, kBytes));
  REQUIRE_OK(cudaFree(old));  // bug: used_after_free_beside_a_new_block
  REQUIRE_OK(cudaMalloc(&fresh, kBytes));
  REQUIRE_OK(cudaMemset(fresh, 0, kBytes));
  float* const used = corrected ? fresh : old;
  (void)cublasSscal(blas.handle, kCount, &kFactor, used, 1);  // bug: used_after_free_beside_a_new_block
  if (corrected) REQUIRE_OK(cudaFree(fresh));
}

FANOUT_BUG(pool_memory_used_after_free_beside_a_new_block, "cublasSscal at",
           "memory of this device that is not allocated", "freed at") {
  const Blas blas(0);
  float *old = nullptr, *fresh = nullptr;
  REQUIRE_OK(cudaMallocAsync(&old, kBytes, nullptr));
  REQUIRE_OK(cudaMemsetAsync(old, 0, kBytes));
  REQUIRE_OK(cudaFreeAsync(old, nullptr));  // bug: pool_memory_used_after_free_beside_a_new_block
  REQUIRE_OK(cudaMallocAsync(&fresh, kBytes, nullptr));
  REQUIRE_OK(cudaMemsetAsync(fresh, 0, kBytes));
  float* const used = corrected ? fresh : old;
  (void)cublasSscal(blas.handle, kCount, &kFactor, used, 1);  // bug: pool_memory_used_after_free_beside_a_new_block
  if (corrected) REQUIRE_OK(cudaFreeAsync(fresh, nullptr));
}

FANOUT_BUG(product_of_pageable_memory, "cublasSscal at", "pageable host memory; the device has error 700") {
  const Blas blas(0);
  const Lab lab;
  float on_host[kCount] = {};
  (void)cublasSscal(blas.handle, kCount, &kFactor, corrected ? lab.a : on_host, 1);  // bug: product_of_pageable_memory
}

FANOUT_BUG(memory_of_another_device, "cublasSscal at", "memory of another device without peer access (1024 bytes of") {
  const Blas blas(0);
  const Lab here(0), there(1);
  (void)cublasSscal(blas.handle, kCount, &kFactor, corrected ? here.a : there.a, 1);  // bug: memory_of_another_device
}

FANOUT_BUG(pool_memory_of_another_device, "pool memory of another device without access to the pool") {
  const Blas blas(0);
  float* block = nullptr;
  cudaMemPool_t pool = nullptr;
  REQUIRE_OK(cudaDeviceEnablePeerAccess(1, 0));  // which does not open pools
  REQUIRE_OK(cudaDeviceGetDefaultMemPool(&pool, 1));
  const cudaMemAccessDesc access{{cudaMemLocationTypeDevice, 0}, cudaMemAccessFlagsProtReadWrite};
  if (corrected) REQUIRE_OK(cudaMemPoolSetAccess(pool, &access, 1));
  {
    const OnDevice current(1);
    REQUIRE_OK(cudaMallocAsync(&block, kBytes, nullptr));
    REQUIRE_OK(cudaMemsetAsync(block, 0, kBytes, nullptr));
    REQUIRE_OK(cudaStreamSynchronize(nullptr));
  }
  (void)cublasSscal(blas.handle, kCount, &kFactor, block, 1);  // bug: pool_memory_of_another_device
  (void)cudaDeviceSynchronize();
  const OnDevice current(1);
  REQUIRE_OK(cudaFreeAsync(block, nullptr));
}

FANOUT_BUG(vector_beyond_its_end, "cublasSscal at", "beyond the end of its allocation (1024 bytes of cuda:0") {
  const Blas blas(0);
  const Lab lab;
  (void)cublasSscal(blas.handle, corrected ? kCount : kCount + 1, &kFactor, lab.a, 1);  // bug: vector_beyond_its_end
}

FANOUT_BUG(overlapping_copy, "cudaMemcpyAsync(target", "the areas overlap") {
  const Lab lab;
  const auto kind = cudaMemcpyDeviceToDevice;
  float* const target = corrected ? lab.b : lab.a + 1;
  REQUIRE_OK(cudaMemcpyAsync(target, lab.a, kBytes / 2, kind, lab.first));  // bug: overlapping_copy
}

FANOUT_BUG(wrong_copy_kind, "cudaMemcpy(target", "in cuda:0, source", "in pageable host memory",
           "the kind is cudaMemcpyDeviceToHost") {
  const Lab lab;
  float on_host[kCount] = {};
  const cudaMemcpyKind kind = corrected ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
  REQUIRE_OK(cudaMemcpy(lab.a, on_host, kBytes, kind));  // bug: wrong_copy_kind
}

FANOUT_BUG(peer_copy_names_the_wrong_device, "cudaMemcpyPeerAsync on", "the target", "is not memory of cuda:0") {
  const Lab here(0), there(1);
  const int target = corrected ? 1 : 0;
  (void)cudaMemcpyPeerAsync(there.a, target, here.a, 0, kBytes, here.first);  // bug: peer_copy_names_the_wrong_device
}

FANOUT_BUG(destroyed_stream, "cudaMemsetAsync on current device cuda:0",
           "was destroyed before (stream of cuda:0, made at", "destroyed at") {
  const Lab lab;
  cudaStream_t stream = nullptr;
  REQUIRE_OK(cudaStreamCreate(&stream));                  // bug: destroyed_stream
  if (!corrected) REQUIRE_OK(cudaStreamDestroy(stream));  // bug: destroyed_stream
  REQUIRE_OK(cudaMemsetAsync(lab.a, 0, kBytes, stream));  // bug: destroyed_stream
  if (corrected) REQUIRE_OK(cudaStreamDestroy(stream));
}

FANOUT_BUG(destroyed_event, "cudaStreamWaitEvent on", "was destroyed before (event of cuda:0, made at",
           "destroyed at") {
  const Lab lab;
  cudaEvent_t event = nullptr;
  REQUIRE_OK(cudaEventCreate(&event));
  REQUIRE_OK(cudaEventRecord(event, lab.first));
  if (!corrected) REQUIRE_OK(cudaEventDestroy(event));  // bug: destroyed_event
  REQUIRE_OK(cudaStreamWaitEvent(lab.second, event));   // bug: destroyed_event
  if (corrected) REQUIRE_OK(cudaEventDestroy(event));
}

FANOUT_BUG(handle_of_another_device, "cublasSscal at", "belongs to device 1, but device 0 is current") {
  const Blas blas(corrected ? 0 : 1);
  const Lab lab;
  (void)cublasSscal(blas.handle, kCount, &kFactor, lab.a, 1);  // bug: handle_of_another_device
}

FANOUT_BUG(host_reads_device_memory, "the host reads memory of cuda:0", "(1024 bytes of cuda:0, allocated at") {
  const Lab lab;
  REQUIRE_OK(cudaMemset(lab.a, 0, kBytes));  // bug: host_reads_device_memory
  float first = 1;
  if (corrected) {
    REQUIRE_OK(cudaMemcpy(&first, lab.a, sizeof first, cudaMemcpyDeviceToHost));
  } else {
    first = *static_cast<const volatile float*>(lab.a);
  }
  REQUIRE(first == 0);
}

FANOUT_BUG(host_writes_device_memory, "the host", "memory of cuda:1", "4 bytes of cuda:1, allocated at") {
  REQUIRE_OK(cudaSetDevice(1));
  int* counter = nullptr;
  REQUIRE_OK(cudaMalloc(&counter, sizeof *counter));  // bug: host_writes_device_memory
  if (corrected) {
    REQUIRE_OK(cudaMemset(counter, 0, sizeof *counter));
  } else {
    *static_cast<volatile int*>(counter) = 0;
  }
  REQUIRE_OK(cudaFree(counter));
}
