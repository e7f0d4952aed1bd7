// SPDX-License-Identifier: Apache-2.0
// What a cuBLAS handle holds, and how a routine queues its work through it.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <type_traits>

#include "cublas_v2.h"
#include "sim/runtime/handle_table.h"
#include "sim/runtime/report.h"
#include "sim/submit.h"

struct cublasContext {
  int device = 0;
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
  cublasAtomicsMode_t atomics_mode = CUBLAS_ATOMICS_NOT_ALLOWED;
};

namespace sim::blas {

inline constexpr std::size_t kMostHandles = 1 << 12;
extern HandleTable<cublasContext, kMostHandles>& handles;

/// False for NULL, garbage, and a handle that was destroyed.
inline bool is_live(cublasHandle_t handle) {
  return handles.state(handle) == HandleState::live;
}

/// What a routine touches of a column-major matrix: all of it, or where gaps lie between the columns the first one.
template <class T>
Access access_of_matrix(T* data, std::size_t rows, std::size_t columns, std::size_t leading) {
  return {data, !std::is_const_v<T>, (leading == rows ? rows * columns : rows) * sizeof(T)};
}
/// The same of a vector of `n` elements.
template <class T>
Access access_of_vector(T* data, int n, int increment) {
  if (data == nullptr) return {};
  const bool is_dense = increment == 1 || increment == -1;
  return {data, !std::is_const_v<T>, (is_dense ? static_cast<std::size_t>(n) : 1) * sizeof(T)};
}

void report_wrong_device(const char* call, const cublasContext& handle);

/// alpha or beta: a copy from the host, or a device pointer that is read when the work runs.
template <class T>
struct Scalar {
  Scalar(const cublasContext& handle, const T* source)
      : device_pointer(handle.pointer_mode == CUBLAS_POINTER_MODE_DEVICE ? source : nullptr),
        host_value(device_pointer ? T{} : *source) {}
  T value() const { return device_pointer ? *device_pointer : host_value; }
  Access access() const { return {device_pointer, false, sizeof(T)}; }

  const T* device_pointer;
  T host_value;
};

/// Queues `work()`, which holds all it needs by value, in the handle's stream; refuses when another device than the
/// handle's is current.
template <class Work>
cublasStatus_t submit(const cublasContext& handle, const char* call, std::initializer_list<Access> accesses,
                      Work&& work) {
  if (current_device() != handle.device) {
    report_wrong_device(call, handle);
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  const cudaError_t error =
      submit_work(handle.stream, call, accesses.begin(), static_cast<int>(accesses.size()), work_ref(work), true);
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace sim::blas
