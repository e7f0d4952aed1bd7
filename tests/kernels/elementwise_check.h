// SPDX-License-Identifier: Apache-2.0
// What every elementwise launcher must do, against a scalar reference: all lengths, alignments and permitted aliases.
#pragma once

#include "tests/kernels/device_array.h"
#include "tests/kernels/values.h"

namespace fanout::kernels {

/// launch(y, x, n) must give y[i] = reference(x[i]) to within `tolerance`.
template <class T, class Launch, class Reference>
void check_unary(Launch launch, Reference reference, double tolerance) {
  for (const auto n : kLengths) {
    const auto x = wild_values<T>(n, 1);
    std::vector<T> expected(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) expected[i] = static_cast<T>(reference(x[i]));
    for (const int shift : {0, 1, 2}) {
      CAPTURE(n, shift);
      const DeviceArray<T> on_device(x, shift % 2);
      const auto y = DeviceArray<T>::unset(n, shift / 2);
      REQUIRE(launch(y.data(), on_device.data(), n) == cudaSuccess);
      require_near(y.to_host(), expected, tolerance);
      require_same(on_device.to_host(), x);
      REQUIRE(launch(on_device.data(), on_device.data(), n) == cudaSuccess);
      require_near(on_device.to_host(), expected, tolerance);
    }
  }
  CHECK(launch(static_cast<T*>(nullptr), static_cast<const T*>(nullptr), 0) == cudaSuccess);
  CHECK(launch(static_cast<T*>(nullptr), static_cast<const T*>(nullptr), -1) == cudaErrorInvalidValue);
}

/// launch(y, a, b, n) must give y[i] = reference(a[i], b[i]) to within `tolerance`.
template <class T, class Launch, class Reference>
void check_binary(Launch launch, Reference reference, double tolerance) {
  for (const auto n : kLengths) {
    const auto a = wild_values<T>(n, 1), b = wild_values<T>(n, 2);
    std::vector<T> expected(a.size()), doubled(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) expected[i] = static_cast<T>(reference(a[i], b[i]));
    for (std::size_t i = 0; i < a.size(); ++i) doubled[i] = static_cast<T>(reference(a[i], a[i]));
    for (const int shift : {0, 1, 2, 4}) {
      CAPTURE(n, shift);
      const auto y = DeviceArray<T>::unset(n, shift & 1);
      const DeviceArray<T> first(a, shift >> 1 & 1), second(b, shift >> 2);
      REQUIRE(launch(y.data(), first.data(), second.data(), n) == cudaSuccess);
      require_near(y.to_host(), expected, tolerance);
      require_same(first.to_host(), a);
      require_same(second.to_host(), b);
      REQUIRE(launch(second.data(), first.data(), second.data(), n) == cudaSuccess);
      require_near(second.to_host(), expected, tolerance);
      const DeviceArray<T> second_again(b);
      REQUIRE(launch(first.data(), first.data(), second_again.data(), n) == cudaSuccess);
      require_near(first.to_host(), expected, tolerance);
      const DeviceArray<T> all_three(a);
      REQUIRE(launch(all_three.data(), all_three.data(), all_three.data(), n) == cudaSuccess);
      require_near(all_three.to_host(), doubled, tolerance);
    }
  }
  const T* none = nullptr;
  CHECK(launch(static_cast<T*>(nullptr), none, none, 0) == cudaSuccess);
  CHECK(launch(static_cast<T*>(nullptr), none, none, -1) == cudaErrorInvalidValue);
}

}  // namespace fanout::kernels
