// SPDX-License-Identifier: Apache-2.0
// What a program makes and never gives back, and errors that nobody reads.
#include <cublas_v2.h>
#include <nccl.h>

#include "tests/platform/bugs/bug.h"

namespace {

constexpr std::size_t kBytes = 1000;

}  // namespace

FANOUT_BUG(leaked_stream, "leak: 1 stream of cuda:1, made at", "never destroyed") {
  const fanout::test::OnDevice second(1);
  cudaStream_t stream = nullptr;
  REQUIRE_OK(cudaStreamCreate(&stream));  // bug: leaked_stream
  if (corrected) REQUIRE_OK(cudaStreamDestroy(stream));
}

FANOUT_BUG(leaked_events, "leak: 3 events of cuda:0, made at", "never destroyed") {
  for (int i = 0; i < 3; ++i) {
    cudaEvent_t event = nullptr;
    REQUIRE_OK(cudaEventCreate(&event));  // bug: leaked_events
    if (corrected) REQUIRE_OK(cudaEventDestroy(event));
  }
}

FANOUT_BUG(leaked_memory, "leak: 1 block of cuda:0 with 1000 bytes, allocated at", "never freed") {
  void* pointer = nullptr;
  REQUIRE_OK(cudaMalloc(&pointer, kBytes));  // bug: leaked_memory
  if (corrected) REQUIRE_OK(cudaFree(pointer));
}

FANOUT_BUG(leaked_pool_memory, "leak: 1 pool block of cuda:1 with 1000 bytes, allocated at") {
  const fanout::test::OnDevice second(1);
  void* pointer = nullptr;
  REQUIRE_OK(cudaMallocAsync(&pointer, kBytes, nullptr));  // bug: leaked_pool_memory
  if (corrected) REQUIRE_OK(cudaFreeAsync(pointer, nullptr));
}

FANOUT_BUG(leaked_pinned_memory, "leak: 1 pinned block of cuda:0 with 1000 bytes, allocated at") {
  void* pointer = nullptr;
  REQUIRE_OK(cudaMallocHost(&pointer, kBytes));  // bug: leaked_pinned_memory
  if (corrected) REQUIRE_OK(cudaFreeHost(pointer));
}

FANOUT_BUG(leaked_registration, "leak: 1 host registration of cuda:0 with 1000 bytes, made at", "never undone") {
  static char bytes[kBytes];
  REQUIRE_OK(cudaHostRegister(bytes, kBytes, cudaHostRegisterDefault));  // bug: leaked_registration
  if (corrected) REQUIRE_OK(cudaHostUnregister(bytes));
}

FANOUT_BUG(leaked_pool, "leak: 1 memory pool of cuda:0, made at") {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t pool = nullptr;
  REQUIRE_OK(cudaMemPoolCreate(&pool, &properties));  // bug: leaked_pool
  if (corrected) REQUIRE_OK(cudaMemPoolDestroy(pool));
}

FANOUT_BUG(leaked_blas_handle, "leak: 1 cuBLAS handle of cuda:0, made at") {
  cublasHandle_t handle = nullptr;
  REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);  // bug: leaked_blas_handle
  if (corrected) REQUIRE(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
}

FANOUT_BUG(leaked_communicator, "leak: 1 NCCL communicator of cuda:1, made at") {
  ncclComm_t ranks[2] = {};
  REQUIRE(ncclCommInitAll(ranks, 2, nullptr) == ncclSuccess);  // bug: leaked_communicator
  REQUIRE(ncclCommDestroy(ranks[0]) == ncclSuccess);
  if (corrected) REQUIRE(ncclCommDestroy(ranks[1]) == ncclSuccess);
}

FANOUT_BUG(unread_error, "unread error: cudaErrorInvalidValue (1), returned by the call at") {
  void* pointer = nullptr;
  char byte = 0;
  REQUIRE_OK(cudaMalloc(&pointer, 1));
  (void)cudaMemcpy(pointer, &byte, 2, cudaMemcpyHostToDevice);  // bug: unread_error
  if (corrected) CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  REQUIRE_OK(cudaFree(pointer));
}

// The call that queues the product succeeds, and nothing asks how it went.
FANOUT_BUG(unread_fault, "pointer 0 is", "pageable host memory; the device has error 700 from now on",
           "unread error: cuda:0 has cudaErrorIllegalAddress (700), and no call has returned it") {
  float in_host[4] = {1, 2, 3, 4}, factor = 2;
  float* pointer = in_host;
  cublasHandle_t handle = nullptr;
  REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  if (corrected) {
    REQUIRE_OK(cudaMalloc(&pointer, sizeof in_host));
    REQUIRE_OK(cudaMemcpy(pointer, in_host, sizeof in_host, cudaMemcpyHostToDevice));
  }
  REQUIRE(cublasSscal(handle, 4, &factor, pointer, 1) == CUBLAS_STATUS_SUCCESS);  // bug: unread_fault
  if (corrected) REQUIRE_OK(cudaFree(pointer));
  if (corrected) REQUIRE(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
}
