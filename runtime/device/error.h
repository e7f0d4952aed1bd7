// SPDX-License-Identifier: Apache-2.0
// What the runtime throws, and the one check that turns CUDA, cuBLAS and NCCL codes into it.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include <stdexcept>
#include <string>

namespace fanout {

/// Base of everything that fanout throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The caller did something wrong; the text says what differs, where, and the way out.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// Tensors are on devices where they must not be.
class PlacementError : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

/// No GPU that CUDA can use.
class NoDeviceError : public Error {
 public:
  using Error::Error;
};

/// A CUDA runtime call, or work queued before it, failed.
class CudaError : public Error {
 public:
  CudaError(cudaError_t code, const std::string& text) : Error(text), code_(code) {}
  cudaError_t code() const noexcept { return code_; }

 private:
  cudaError_t code_;
};

class CublasError : public Error {
 public:
  CublasError(cublasStatus_t code, const std::string& text) : Error(text), code_(code) {}
  cublasStatus_t code() const noexcept { return code_; }

 private:
  cublasStatus_t code_;
};

class NcclError : public Error {
 public:
  NcclError(ncclResult_t code, const std::string& text) : Error(text), code_(code) {}
  ncclResult_t code() const noexcept { return code_; }

 private:
  ncclResult_t code_;
};

/// Runs `work`; a CudaError, CublasError or NcclError of it is thrown on with the string `where()` before its text.
template <class Where, class Work>
auto naming_failures(const Where& where, const Work& work) {
  try {
    return work();
  } catch (const CudaError& error) {
    throw CudaError(error.code(), where() + error.what());
  } catch (const CublasError& error) {
    throw CublasError(error.code(), where() + error.what());
  } catch (const NcclError& error) {
    throw NcclError(error.code(), where() + error.what());
  }
}

namespace detail {
// The place is that of the caller; the builtins serve compilers without std::source_location too (clang before 16).
[[noreturn]] void throw_cuda(cudaError_t code, const char* call, const char* file, int line);
[[noreturn]] void throw_cublas(cublasStatus_t code, const char* call, const char* file, int line);
[[noreturn]] void throw_nccl(ncclResult_t code, const char* call, const char* file, int line);

inline void check(cudaError_t code, const char* call, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (code != cudaSuccess) [[unlikely]]
    throw_cuda(code, call, file, line);
}
inline void check(cublasStatus_t code, const char* call, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (code != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    throw_cublas(code, call, file, line);
}
inline void check(ncclResult_t code, const char* call, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (code != ncclSuccess) [[unlikely]]
    throw_nccl(code, call, file, line);
}

/// For destructors: says on standard error what could not be released, and goes on. A broken device repeats its error
/// at every call, so that one is left to the next call that throws, and said at exit if none does.
void report_unreleased(cudaError_t code, const char* call) noexcept;
}  // namespace detail

}  // namespace fanout

/// Throws CudaError, CublasError or NcclError unless `call` succeeded; the text has the call, the place and the device.
#define FANOUT_CHECK(call) ::fanout::detail::check((call), #call)
