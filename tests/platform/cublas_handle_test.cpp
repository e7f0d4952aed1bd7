// SPDX-License-Identifier: Apache-2.0
// cuBLAS handles: what they keep, what they refuse, and which device they belong to.
#include <cublas_v2.h>

#include <catch2/catch.hpp>
#include <string>

#include "tests/platform/blas_handle.h"
#include "tests/platform/device_array.h"

using fanout::tests::BlasHandle;
using fanout::tests::CurrentDevice;
using fanout::tests::DeviceArray;

TEST_CASE("a NULL handle is NOT_INITIALIZED, a NULL result INVALID_VALUE") {
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointer_mode;
  cublasMath_t math_mode;
  CHECK(cublasCreate(nullptr) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasDestroy(nullptr) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(cublasSetStream(nullptr, stream) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(cublasGetStream(nullptr, &stream) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(cublasSetPointerMode(nullptr, CUBLAS_POINTER_MODE_HOST) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(cublasGetPointerMode(nullptr, &pointer_mode) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(cublasSetMathMode(nullptr, CUBLAS_DEFAULT_MATH) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(cublasGetMathMode(nullptr, &math_mode) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(cublasSetAtomicsMode(nullptr, CUBLAS_ATOMICS_ALLOWED) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(cublasSetWorkspace(nullptr, nullptr, 0) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(cublasGetVersion(nullptr, nullptr) == CUBLAS_STATUS_INVALID_VALUE);
  BlasHandle handle;
  CHECK(cublasGetStream(handle, nullptr) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("a handle keeps stream, pointer mode, math mode and atomics mode, and refuses unknown ones") {
  BlasHandle handle;
  cudaStream_t stream = nullptr, read_stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  cublasPointerMode_t pointer_mode;
  cublasMath_t math_mode;
  cublasAtomicsMode_t atomics_mode;
  REQUIRE(cublasGetPointerMode(handle, &pointer_mode) == CUBLAS_STATUS_SUCCESS);
  CHECK(pointer_mode == CUBLAS_POINTER_MODE_HOST);
  CHECK(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasSetPointerMode(handle, static_cast<cublasPointerMode_t>(9)) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasSetMathMode(handle, static_cast<cublasMath_t>(99)) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasSetAtomicsMode(handle, CUBLAS_ATOMICS_ALLOWED) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasSetStream(handle, stream) == CUBLAS_STATUS_SUCCESS);
  cublasGetPointerMode(handle, &pointer_mode);
  cublasGetMathMode(handle, &math_mode);
  cublasGetAtomicsMode(handle, &atomics_mode);
  cublasGetStream(handle, &read_stream);
  CHECK(pointer_mode == CUBLAS_POINTER_MODE_DEVICE);
  CHECK(math_mode == CUBLAS_TF32_TENSOR_OP_MATH);
  CHECK(atomics_mode == CUBLAS_ATOMICS_ALLOWED);
  CHECK(read_stream == stream);
  CHECK(cublasSetStream(handle, nullptr) == CUBLAS_STATUS_SUCCESS);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

TEST_CASE("a workspace must be aligned to 256 bytes") {
  BlasHandle handle;
  const DeviceArray<float> workspace(std::vector<float>(1 << 14));
  CHECK(cublasSetWorkspace(handle, workspace.data(), 1 << 15) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasSetWorkspace(handle, workspace.data() + 1, 1 << 15) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("statuses have cuBLAS's names and texts") {
  const auto unknown = static_cast<cublasStatus_t>(99);
  CHECK(cublasGetStatusName(CUBLAS_STATUS_EXECUTION_FAILED) == std::string("CUBLAS_STATUS_EXECUTION_FAILED"));
  CHECK(cublasGetStatusString(CUBLAS_STATUS_SUCCESS) == std::string("success"));
  CHECK(cublasGetStatusString(CUBLAS_STATUS_EXECUTION_FAILED) ==
        std::string("the function failed to launch on the GPU"));
  CHECK(cublasGetStatusName(unknown) == std::string("unrecognized status"));
  CHECK(cublasGetStatusString(unknown) == std::string("unrecognized status"));
}

TEST_CASE("a handle works on the device that was current when it was made") {
  const CurrentDevice second(1);
  BlasHandle handle;
  const float two = 2;
  const DeviceArray<float> x({1, 2}, 1);
  REQUIRE(cublasSscal(handle, 2, &two, x.data(), 1) == CUBLAS_STATUS_SUCCESS);
  CHECK(x.read() == std::vector<float>{2, 4});
}
