// SPDX-License-Identifier: Apache-2.0
// A cuBLAS handle that ends with its scope, for tests.
#pragma once

#include <cublas_v2.h>

#include <catch2/catch.hpp>

namespace fanout::tests {

class BlasHandle {
 public:
  BlasHandle() { REQUIRE(cublasCreate(&handle_) == CUBLAS_STATUS_SUCCESS); }
  ~BlasHandle() { cublasDestroy(handle_); }
  BlasHandle(const BlasHandle&) = delete;
  BlasHandle& operator=(const BlasHandle&) = delete;
  operator cublasHandle_t() const { return handle_; }

 private:
  cublasHandle_t handle_ = nullptr;
};

}  // namespace fanout::tests
