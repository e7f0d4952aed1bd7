// SPDX-License-Identifier: Apache-2.0
// What a warm training step asks of the platform, counted call by call: it guards the overhead without a clock. Linked
// with --wrap: a call of `name` comes to __wrap_name, and __real_name is the platform's.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <pthread.h>

#include <atomic>
#include <catch2/catch.hpp>

#include "runtime/device/context.h"
#include "runtime/device/error.h"
#include "sim/submit.h"
#include "tools/bench/training_step.h"

namespace {

struct Counts {
  std::atomic<int> launches, products, copies, reduces, broadcasts, other_memory, threads;

  void reset() { launches = products = copies = reduces = broadcasts = other_memory = threads = 0; }
} counts;

}  // namespace

extern "C" {

cublasStatus_t __real_cublasSgemm(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const float*,
                                  const float*, int, const float*, int, const float*, float*, int);
cublasStatus_t __wrap_cublasSgemm(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                                  int n, int k, const float* alpha, const float* a, int lda, const float* b, int ldb,
                                  const float* beta, float* c, int ldc) {
  ++counts.products;
  return __real_cublasSgemm(handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

ncclResult_t __real_ncclReduce(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t,
                               cudaStream_t);
ncclResult_t __wrap_ncclReduce(const void* source, void* target, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, int root, ncclComm_t communicator, cudaStream_t stream) {
  ++counts.reduces;
  return __real_ncclReduce(source, target, count, type, operation, root, communicator, stream);
}

ncclResult_t __real_ncclBroadcast(const void*, void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ncclResult_t __wrap_ncclBroadcast(const void* source, void* target, std::size_t count, ncclDataType_t type, int root,
                                  ncclComm_t communicator, cudaStream_t stream) {
  ++counts.broadcasts;
  return __real_ncclBroadcast(source, target, count, type, root, communicator, stream);
}

int __real_pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*work)(void*), void* argument) {
  ++counts.threads;
  return __real_pthread_create(thread, attributes, work, argument);
}
}

// Functions of C++ have mangled names. FANOUT_COUNTED(name, counter, mangled, (parameters), (arguments)).
#define FANOUT_COUNTED(name, counter, mangled, parameters, arguments) \
  cudaError_t real_##name parameters asm("__real_" mangled);          \
  cudaError_t wrap_##name parameters asm("__wrap_" mangled);          \
  cudaError_t wrap_##name parameters {                                \
    ++counts.counter;                                                 \
    return real_##name arguments;                                     \
  }

FANOUT_COUNTED(memcpy, copies, "_Z15cudaMemcpyAsyncPvPKvm14cudaMemcpyKindP11CUstream_st",
               (void* target, const void* source, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream),
               (target, source, bytes, kind, stream))
FANOUT_COUNTED(memcpy_peer, copies, "_Z19cudaMemcpyPeerAsyncPviPKvimP11CUstream_st",
               (void* target, int target_device, const void* source, int source_device, std::size_t bytes,
                cudaStream_t stream),
               (target, target_device, source, source_device, bytes, stream))
FANOUT_COUNTED(malloc, other_memory, "_Z10cudaMallocPPvm", (void** pointer, std::size_t bytes), (pointer, bytes))
FANOUT_COUNTED(malloc_host, other_memory, "_Z14cudaMallocHostPPvmj",
               (void** pointer, std::size_t bytes, unsigned flags), (pointer, bytes, flags))
FANOUT_COUNTED(launch, launches, "_ZN3sim13submit_launchERK18cudaLaunchConfig_tPKcPKNS_6AccessEiNS_7WorkRefE",
               (const cudaLaunchConfig_t& config, const char* name, const sim::Access* accesses, int count,
                sim::WorkRef work),
               (config, name, accesses, count, work))

using namespace fanout;

namespace {

constexpr int kWarmUp = 40;  // both ways to use lanes are tried, and the pools have their memory

std::vector<Device> first_devices(int count) {
  std::vector<Device> devices;
  for (int index = 0; index < count; ++index) devices.push_back(Device(index));
  return devices;
}

std::uint64_t pool_bytes(Device device) {
  cudaMemPool_t pool = nullptr;
  FANOUT_CHECK(cudaDeviceGetDefaultMemPool(&pool, device.index()));
  std::uint64_t bytes = 0;
  FANOUT_CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &bytes));
  return bytes;
}

}  // namespace

// A layer's forward is a product, and its bias with the activation; its backward a product for the weight, one for the
// input but of the first layer, and a launch for the bias, which takes the activation's backward along. Then the loss,
// which is two launches, and the update.
TEST_CASE("a warm step of two layers on one device is 5 products, 7 launches and 2 copies") {
  bench::TrainingStep step({64, 32, 10}, 32, tools::OptimizerKind::sgd, first_devices(1));
  for (int i = 0; i < kWarmUp; ++i) step();
  counts.reset();
  step();
  CHECK(counts.products == 5);
  CHECK(counts.launches == 4 + 2 + 1);
  CHECK(counts.copies == 2);
  CHECK(counts.reduces == 0);
  CHECK(counts.broadcasts == 0);
}

TEST_CASE("a warm step of two layers on four devices reduces once, updates once and broadcasts once", "[eager]") {
  bench::TrainingStep step({64, 32, 10}, 32, tools::OptimizerKind::sgd, first_devices(4));
  for (int i = 0; i < kWarmUp; ++i) step();
  counts.reset();
  step();
  CHECK(counts.products == 4 * 5);
  CHECK(counts.launches == 4 * 4 + 2 + 1);  // the loss and the update are the primary's
  CHECK(counts.copies == 1 + 4 + 4 + 3);    // labels, images, logits joined, their gradients back
  CHECK(counts.reduces == 4);               // one call, of four ranks
  CHECK(counts.broadcasts == 4);
}

TEST_CASE("warm steps take no memory and start no thread, whatever the number of devices") {
  for (const int devices : {1, 2, 4}) {
    for (const auto optimizer : {tools::OptimizerKind::sgd, tools::OptimizerKind::adam}) {
      bench::TrainingStep step({64, 256, 256, 10}, 64, optimizer, first_devices(devices));
      for (int i = 0; i < kWarmUp; ++i) step();
      std::vector<std::uint64_t> before, after;
      for (const Device device : first_devices(devices)) before.push_back(pool_bytes(device));
      counts.reset();
      for (int i = 0; i < 20; ++i) step();
      for (const Device device : first_devices(devices)) after.push_back(pool_bytes(device));
      CHECK(after == before);
      CHECK(counts.other_memory == 0);
      CHECK(counts.threads == 0);
    }
  }
}
