// SPDX-License-Identifier: Apache-2.0
// What cuBLAS leaves undefined and the simulated one refuses: these tests are for the simulated platform.
#include <cublas_v2.h>

#include <catch2/catch.hpp>

#include "tests/platform/blas_handle.h"
#include "tests/platform/device_array.h"

using fanout::tests::BlasHandle;
using fanout::tests::CurrentDevice;
using fanout::tests::DeviceArray;

TEST_CASE("a handle used while another device is current fails to launch and writes nothing") {
  BlasHandle handle;
  const float two = 2;
  const DeviceArray<float> x({1, 2});
  {
    const CurrentDevice second(1);
    CHECK(cublasSscal(handle, 2, &two, x.data(), 1) == CUBLAS_STATUS_EXECUTION_FAILED);
  }
  CHECK(x.read() == std::vector<float>{1, 2});
  CHECK(cublasSscal(handle, 2, &two, x.data(), 1) == CUBLAS_STATUS_SUCCESS);
}

TEST_CASE("a stream of another device is found at the first routine") {
  BlasHandle handle;
  cudaStream_t stream = nullptr;
  {
    const CurrentDevice second(1);
    REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  }
  const float two = 2;
  const DeviceArray<float> x({1, 2});
  CHECK(cublasSetStream(handle, stream) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasSscal(handle, 2, &two, x.data(), 1) == CUBLAS_STATUS_EXECUTION_FAILED);
  CHECK(cublasSetStream(handle, nullptr) == CUBLAS_STATUS_SUCCESS);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  (void)cudaGetLastError();
}

TEST_CASE("a destroyed handle is not initialized any more") {
  cublasHandle_t handle = nullptr;
  REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasDestroy(handle) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(cublasSetStream(handle, nullptr) == CUBLAS_STATUS_NOT_INITIALIZED);
}

TEST_CASE("a NULL vector or matrix is refused before it could fault") {
  BlasHandle handle;
  const float one = 1;
  const DeviceArray<float> x({1});
  const float* none = nullptr;
  CHECK(cublasSaxpy(handle, 1, &one, none, 1, x.data(), 1) == CUBLAS_STATUS_EXECUTION_FAILED);
  CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, none, 1, x.data(), 1, &one, x.data(), 1) ==
        CUBLAS_STATUS_EXECUTION_FAILED);
}
