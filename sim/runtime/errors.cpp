// SPDX-License-Identifier: Apache-2.0
// cudaGetLastError and the names and texts of the codes.
#include "sim/runtime/machine.h"

using namespace sim;

namespace {
constexpr const char* kUnrecognized = "unrecognized error code";

cudaError_t sticky_of_this_device() {
  return this_device().sticky.load(std::memory_order_relaxed);
}
}  // namespace

cudaError_t cudaPeekAtLastError() {
  if (const cudaError_t error = enter()) return error;
  if (this_thread.last_error == cudaSuccess) {
    const cudaError_t sticky = sticky_of_this_device();
    if (sticky != cudaSuccess) objects::error_left(sticky);
    return sticky;
  }
  objects::error_read();
  return this_thread.last_error;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  this_thread.last_error = cudaSuccess;
  return error;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define FANOUT_NAME(name, number, text) \
  case name:                            \
    return #name;
    FANOUT_CUDA_ERRORS(FANOUT_NAME)
#undef FANOUT_NAME
  }
  return kUnrecognized;
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define FANOUT_TEXT(name, number, text) \
  case name:                            \
    return text;
    FANOUT_CUDA_ERRORS(FANOUT_TEXT)
#undef FANOUT_TEXT
  }
  return kUnrecognized;
}
