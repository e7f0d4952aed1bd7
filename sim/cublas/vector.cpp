// SPDX-License-Identifier: Apache-2.0
// The vector routines of cuBLAS: axpy, scal, dot, nrm2. Sums are taken in an order that depends on n only.
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "sim/cublas/handle.h"

namespace sim::blas {
namespace {

/// BLAS walks a vector of negative increment from its far end.
template <class T>
T* first(T* x, int n, int increment) {
  return increment < 0 ? x + static_cast<std::ptrdiff_t>(1 - n) * increment : x;
}

bool is_null(const char* call, const void* x, const void* y) {
  if (x != nullptr && y != nullptr) return false;
  report("%s: a vector is NULL; a GPU would access address 0", call);
  return true;
}

template <class T>
void add_scaled(int n, T alpha, const T* x, std::ptrdiff_t incx, T* y, std::ptrdiff_t incy) {
  if (incx == 1 && incy == 1) {
#pragma GCC ivdep
    for (int i = 0; i < n; ++i) y[i] += alpha * x[i];
    return;
  }
  for (int i = 0; i < n; ++i) y[i * incy] += alpha * x[i * incx];
}

/// Sixteen running sums, so that the loop is not bound by the latency of an addition.
template <class T, class Term>
T sum(int n, Term&& term) {
  constexpr int kSums = 16;
  std::array<T, kSums> sums{};
  int i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (int lane = 0; lane < kSums; ++lane) sums[lane] += term(i + lane);
  }
  for (; i < n; ++i) sums[i % kSums] += term(i);
  T total{};
  for (const T part : sums) total += part;
  return total;
}

template <class T>
T dot_product(int n, const T* x, std::ptrdiff_t incx, const T* y, std::ptrdiff_t incy) {
  if (incx == 1 && incy == 1) return sum<T>(n, [=](int i) { return x[i] * y[i]; });
  return sum<T>(n, [=](int i) { return x[i * incx] * y[i * incy]; });
}

/// Squares are summed in double; a sum that left double's safe range is taken again with scaled elements.
template <class T>
T norm(int n, const T* x, std::ptrdiff_t incx) {
  const double squares = sum<double>(n, [=](int i) {
    const double value = x[i * incx];
    return value * value;
  });
  if (std::isnan(squares)) return static_cast<T>(squares);
  constexpr double kSafeLow = 1e-280;
  if (squares > kSafeLow && squares <= std::numeric_limits<double>::max()) return static_cast<T>(std::sqrt(squares));
  double largest = 0;
  for (int i = 0; i < n; ++i) largest = std::fmax(largest, std::fabs(static_cast<double>(x[i * incx])));
  if (largest == 0 || std::isinf(largest)) return static_cast<T>(largest);
  const double scaled = sum<double>(n, [=](int i) {
    const double value = x[i * incx] / largest;
    return value * value;
  });
  return static_cast<T>(largest * std::sqrt(scaled));
}

template <class T>
cublasStatus_t axpy(const char* name, cublasHandle_t handle, int n, const T* alpha, const T* x, int incx, T* y,
                    int incy) {
  if (!is_live(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (alpha == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (n <= 0) return CUBLAS_STATUS_SUCCESS;
  if (is_null(name, x, y)) return CUBLAS_STATUS_EXECUTION_FAILED;
  const Scalar<T> factor(*handle, alpha);
  return submit(*handle, name, {access_of_vector(x, n, incx), access_of_vector(y, n, incy), factor.access()},
                [=] { add_scaled(n, factor.value(), first(x, n, incx), incx, first(y, n, incy), incy); });
}

template <class T>
cublasStatus_t scal(const char* name, cublasHandle_t handle, int n, const T* alpha, T* x, int incx) {
  if (!is_live(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (alpha == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (n <= 0 || incx <= 0) return CUBLAS_STATUS_SUCCESS;
  if (is_null(name, x, x)) return CUBLAS_STATUS_EXECUTION_FAILED;
  const Scalar<T> factor(*handle, alpha);
  return submit(*handle, name, {access_of_vector(x, n, incx), factor.access()}, [=] {
    const T value = factor.value();
    for (std::ptrdiff_t i = 0; i < n; ++i) x[i * incx] *= value;
  });
}

/// A result on the host is there when the call returns.
template <class T, class Compute>
cublasStatus_t submit_result(const char* name, cublasHandle_t handle, Access x, Access y, T* result,
                             Compute&& compute) {
  const bool on_host = handle->pointer_mode == CUBLAS_POINTER_MODE_HOST;
  const cublasStatus_t status =
      submit(*handle, name, {x, y, {on_host ? nullptr : result, true, sizeof(T)}}, [=] { *result = compute(); });
  if (status != CUBLAS_STATUS_SUCCESS || !on_host) return status;
  return cudaStreamSynchronize(handle->stream) == cudaSuccess ? status : CUBLAS_STATUS_EXECUTION_FAILED;
}

template <class T>
cublasStatus_t dot(const char* name, cublasHandle_t handle, int n, const T* x, int incx, const T* y, int incy,
                   T* result) {
  if (!is_live(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (result == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (n <= 0) return submit_result<T>(name, handle, {}, {}, result, [] { return T{0}; });
  if (is_null(name, x, y)) return CUBLAS_STATUS_EXECUTION_FAILED;
  return submit_result(name, handle, access_of_vector(x, n, incx), access_of_vector(y, n, incy), result,
                       [=] { return dot_product(n, first(x, n, incx), incx, first(y, n, incy), incy); });
}

template <class T>
cublasStatus_t nrm2(const char* name, cublasHandle_t handle, int n, const T* x, int incx, T* result) {
  if (!is_live(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (result == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (n <= 0 || incx <= 0) return submit_result<T>(name, handle, {}, {}, result, [] { return T{0}; });
  if (is_null(name, x, x)) return CUBLAS_STATUS_EXECUTION_FAILED;
  return submit_result<T>(name, handle, access_of_vector(x, n, incx), {}, result, [=] { return norm(n, x, incx); });
}

}  // namespace
}  // namespace sim::blas

namespace blas = sim::blas;

cublasStatus_t cublasSaxpy(cublasHandle_t handle, int n, const float* alpha, const float* x, int incx, float* y,
                           int incy) {
  return blas::axpy("cublasSaxpy", handle, n, alpha, x, incx, y, incy);
}
cublasStatus_t cublasDaxpy(cublasHandle_t handle, int n, const double* alpha, const double* x, int incx, double* y,
                           int incy) {
  return blas::axpy("cublasDaxpy", handle, n, alpha, x, incx, y, incy);
}
cublasStatus_t cublasSscal(cublasHandle_t handle, int n, const float* alpha, float* x, int incx) {
  return blas::scal("cublasSscal", handle, n, alpha, x, incx);
}
cublasStatus_t cublasDscal(cublasHandle_t handle, int n, const double* alpha, double* x, int incx) {
  return blas::scal("cublasDscal", handle, n, alpha, x, incx);
}
cublasStatus_t cublasSdot(cublasHandle_t handle, int n, const float* x, int incx, const float* y, int incy,
                          float* result) {
  return blas::dot("cublasSdot", handle, n, x, incx, y, incy, result);
}
cublasStatus_t cublasDdot(cublasHandle_t handle, int n, const double* x, int incx, const double* y, int incy,
                          double* result) {
  return blas::dot("cublasDdot", handle, n, x, incx, y, incy, result);
}
cublasStatus_t cublasSnrm2(cublasHandle_t handle, int n, const float* x, int incx, float* result) {
  return blas::nrm2("cublasSnrm2", handle, n, x, incx, result);
}
cublasStatus_t cublasDnrm2(cublasHandle_t handle, int n, const double* x, int incx, double* result) {
  return blas::nrm2("cublasDnrm2", handle, n, x, incx, result);
}
