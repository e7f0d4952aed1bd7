// SPDX-License-Identifier: Apache-2.0
// The vector routines of cuBLAS and the sum of matrices.
#include <cublas_v2.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/platform/blas_handle.h"
#include "tests/platform/device_array.h"

namespace {

using fanout::tests::BlasHandle;
using fanout::tests::DeviceArray;

/// The routines of a type, so that a test is written once.
template <class T>
struct Blas;
template <>
struct Blas<float> {
  static constexpr auto axpy = [](auto&&... a) { return cublasSaxpy(a...); };
  static constexpr auto scal = [](auto&&... a) { return cublasSscal(a...); };
  static constexpr auto dot = [](auto&&... a) { return cublasSdot(a...); };
  static constexpr auto nrm2 = [](auto&&... a) { return cublasSnrm2(a...); };
  static constexpr auto geam = [](auto&&... a) { return cublasSgeam(a...); };
};
template <>
struct Blas<double> {
  static constexpr auto axpy = [](auto&&... a) { return cublasDaxpy(a...); };
  static constexpr auto scal = [](auto&&... a) { return cublasDscal(a...); };
  static constexpr auto dot = [](auto&&... a) { return cublasDdot(a...); };
  static constexpr auto nrm2 = [](auto&&... a) { return cublasDnrm2(a...); };
  static constexpr auto geam = [](auto&&... a) { return cublasDgeam(a...); };
};

}  // namespace

TEMPLATE_TEST_CASE("axpy adds alpha x to y, walks by increments and backwards for a negative one", "", float, double) {
  BlasHandle handle;
  const TestType two = 2;
  const DeviceArray<TestType> x({1, 2, 3}), y({10, 20, 30});
  REQUIRE(Blas<TestType>::axpy(handle, 3, &two, x.data(), 1, y.data(), 1) == CUBLAS_STATUS_SUCCESS);
  CHECK(y.read() == std::vector<TestType>{12, 24, 36});
  REQUIRE(Blas<TestType>::axpy(handle, 3, &two, x.data(), -1, y.data(), 1) == CUBLAS_STATUS_SUCCESS);
  CHECK(y.read() == std::vector<TestType>{18, 28, 38});
  REQUIRE(Blas<TestType>::axpy(handle, 2, &two, x.data(), 2, y.data(), 1) == CUBLAS_STATUS_SUCCESS);
  CHECK(y.read() == std::vector<TestType>{20, 34, 38});
  REQUIRE(Blas<TestType>::axpy(handle, 0, &two, x.data(), 1, y.data(), 1) == CUBLAS_STATUS_SUCCESS);
  CHECK(y.read() == std::vector<TestType>{20, 34, 38});
}

TEMPLATE_TEST_CASE("scal multiplies every increment-th element", "", float, double) {
  BlasHandle handle;
  const TestType three = 3;
  const DeviceArray<TestType> x({1, 2, 3, 4});
  REQUIRE(Blas<TestType>::scal(handle, 2, &three, x.data(), 2) == CUBLAS_STATUS_SUCCESS);
  CHECK(x.read() == std::vector<TestType>{3, 2, 9, 4});
}

TEMPLATE_TEST_CASE("dot sums products exactly at every length up to 40", "", float, double) {
  BlasHandle handle;
  std::vector<TestType> x(40), y(40);
  for (int i = 0; i < 40; ++i) x[i] = static_cast<TestType>(i), y[i] = static_cast<TestType>(i % 3 + 1);
  const DeviceArray<TestType> device_x(x), device_y(y);
  TestType expected = 0;
  for (int n = 0; n <= 40; ++n) {
    TestType result = -1;
    REQUIRE(Blas<TestType>::dot(handle, n, device_x.data(), 1, device_y.data(), 1, &result) == CUBLAS_STATUS_SUCCESS);
    CHECK(result == expected);
    if (n < 40) expected += x[n] * y[n];
  }
}

TEMPLATE_TEST_CASE("nrm2 neither overflows nor underflows on the way", "", float, double) {
  BlasHandle handle;
  const TestType large = std::numeric_limits<TestType>::max() / 8, small = std::numeric_limits<TestType>::min() * 8;
  TestType result = 0;
  for (const TestType unit : {TestType{1}, large, small}) {
    const DeviceArray<TestType> x({3 * unit, 7 * unit, 4 * unit});
    REQUIRE(Blas<TestType>::nrm2(handle, 2, x.data(), 2, &result) == CUBLAS_STATUS_SUCCESS);
    CHECK(result / unit == Approx(5));
  }
  REQUIRE(Blas<TestType>::nrm2(handle, 0, static_cast<const TestType*>(nullptr), 1, &result) == CUBLAS_STATUS_SUCCESS);
  CHECK(result == 0);
  const DeviceArray<TestType> x({1, std::numeric_limits<TestType>::quiet_NaN()});
  REQUIRE(Blas<TestType>::nrm2(handle, 2, x.data(), 1, &result) == CUBLAS_STATUS_SUCCESS);
  CHECK(std::isnan(result));
}

TEMPLATE_TEST_CASE("results and scalars live on the device in device pointer mode", "", float, double) {
  BlasHandle handle;
  REQUIRE(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE) == CUBLAS_STATUS_SUCCESS);
  const DeviceArray<TestType> x({3, 4}), scalars({2, 0, 0});
  REQUIRE(Blas<TestType>::scal(handle, 2, scalars.data(), x.data(), 1) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(Blas<TestType>::dot(handle, 2, x.data(), 1, x.data(), 1, scalars.data() + 1) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(Blas<TestType>::nrm2(handle, 2, x.data(), 1, scalars.data() + 2) == CUBLAS_STATUS_SUCCESS);
  CHECK(scalars.read() == std::vector<TestType>{2, 100, 10});
}

TEMPLATE_TEST_CASE("geam adds, transposes, works in place, and leaves a matrix with factor 0 unread", "", float,
                   double) {
  BlasHandle handle;
  const TestType one = 1, ten = 10, zero = 0, nan = std::numeric_limits<TestType>::quiet_NaN();
  const DeviceArray<TestType> a({1, 2, 3, 4, 5, 6});  // [2,3]
  const DeviceArray<TestType> b({1, 2, 3, 4, 5, 6});  // [3,2], transposed to [2,3]
  const DeviceArray<TestType> c(std::vector<TestType>(6, nan));
  REQUIRE(Blas<TestType>::geam(handle, CUBLAS_OP_N, CUBLAS_OP_T, 2, 3, &one, a.data(), 2, &ten, b.data(), 3, c.data(),
                               2) == CUBLAS_STATUS_SUCCESS);
  CHECK(c.read() == std::vector<TestType>{11, 42, 23, 54, 35, 66});
  const DeviceArray<TestType> nothing(std::vector<TestType>(6, nan));
  REQUIRE(Blas<TestType>::geam(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 3, &ten, a.data(), 2, &zero, nothing.data(), 2,
                               a.data(), 2) == CUBLAS_STATUS_SUCCESS);
  CHECK(a.read() == std::vector<TestType>{10, 20, 30, 40, 50, 60});
  CHECK(Blas<TestType>::geam(handle, CUBLAS_OP_T, CUBLAS_OP_N, 2, 2, &one, a.data(), 2, &one, b.data(), 2, a.data(),
                             2) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(Blas<TestType>::geam(handle, CUBLAS_OP_N, CUBLAS_OP_T, 2, 3, &one, a.data(), 2, &ten, b.data(), 2, c.data(),
                             2) == CUBLAS_STATUS_INVALID_VALUE);
}
