// SPDX-License-Identifier: Apache-2.0
// cuBLAS handles: making and ending them, their stream and their modes.
#include "sim/cublas/handle.h"

#include <cstdint>

#include "sim/runtime/objects.h"

namespace sim::blas {

HandleTable<cublasContext, kMostHandles>& handles = *new HandleTable<cublasContext, kMostHandles>;

namespace {

template <class T>
cublasStatus_t read(cublasHandle_t handle, T cublasContext::*member, T* out) {
  if (!is_live(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (out == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *out = handle->*member;
  return CUBLAS_STATUS_SUCCESS;
}

bool is_math_mode(int mode) {
  const int flags = CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION | CUBLAS_FP64_EMULATED_FIXEDPOINT_MATH;
  const int base = mode & ~flags;
  return base >= CUBLAS_DEFAULT_MATH && base <= CUBLAS_FP32_EMULATED_BF16X9_MATH;
}

}  // namespace

void report_wrong_device(const char* call, const cublasContext& handle) {
  report("%s at %s: the handle %p belongs to device %d, but device %d is current in this thread", call,
         place_text(call_place).c_str(), static_cast<const void*>(&handle), handle.device, current_device());
}

}  // namespace sim::blas

using namespace sim::blas;

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || cudaSetDevice(device) != cudaSuccess ||
      sim::sticky_error(device) != cudaSuccess) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  const cublasHandle_t made = handles.create();
  if (made == nullptr) return CUBLAS_STATUS_ALLOC_FAILED;
  made->device = device;
  sim::objects::made(sim::objects::Kind::blas_handle, made, device);
  *handle = made;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  if (!is_live(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  const int caller_device = sim::current_device();
  const int device = handle->device;
  handles.destroy(handle);
  sim::objects::ended(handle);
  if (device != caller_device) (void)cudaSetDevice(device);
  (void)cudaDeviceSynchronize();  // an error of earlier work stays with the device
  if (device != caller_device) (void)cudaSetDevice(caller_device);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion(cublasHandle_t, int* version) {
  if (version == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (!is_live(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream) {
  return read(handle, &cublasContext::stream, stream);
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, size_t) {
  if (!is_live(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  constexpr std::uintptr_t kAlignmentBytes = 256;
  if (reinterpret_cast<std::uintptr_t>(workspace) % kAlignmentBytes != 0) return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode) {
  if (!is_live(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (mode != CUBLAS_POINTER_MODE_HOST && mode != CUBLAS_POINTER_MODE_DEVICE) return CUBLAS_STATUS_INVALID_VALUE;
  handle->pointer_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetPointerMode(cublasHandle_t handle, cublasPointerMode_t* mode) {
  return read(handle, &cublasContext::pointer_mode, mode);
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  if (!is_live(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!is_math_mode(mode)) return CUBLAS_STATUS_INVALID_VALUE;
  handle->math_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  return read(handle, &cublasContext::math_mode, mode);
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
  if (!is_live(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (mode != CUBLAS_ATOMICS_NOT_ALLOWED && mode != CUBLAS_ATOMICS_ALLOWED) return CUBLAS_STATUS_INVALID_VALUE;
  handle->atomics_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t* mode) {
  return read(handle, &cublasContext::atomics_mode, mode);
}
