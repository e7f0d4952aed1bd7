// SPDX-License-Identifier: Apache-2.0
// Experiments 3, 4, 6, 12, 13, 15, 18, 20: events, what waits, cuBLAS, NCCL, visible devices, missing results.
// Experiment 14 is about capture into graphs, which fanout does not use and the simulated platform does not have.
#include <cublas_v2.h>
#include <nccl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/platform/experiments/answers.h"
#include "tests/platform/experiments/gate.h"

using namespace fanout::test;

namespace {

// A product of two 1x1 matrices of device 0.
struct Product {
  Product() : matrix(1) {
    matrix.set({2});
    REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  }
  ~Product() { (void)cublasDestroy(handle); }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;
  int multiply() const {
    const float one = 1, zero = 0;
    float* const m = matrix.pointer;
    return cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, m, 1, m, 1, &zero, m, 1);
  }
  Malloced<float> matrix;
  cublasHandle_t handle = nullptr;
};

}  // namespace

TEST_CASE("experiment 3: a cuBLAS handle while another device is current") {
  NEEDS_DEVICES(2);
  const Product product;
  TestStream own;
  {
    OnDevice one(1);
    answer(3, "a product with a handle of another device", product.multiply(), 13);
    REQUIRE(cublasSetStream(product.handle, own.stream) == CUBLAS_STATUS_SUCCESS);
    answer(3, "the same in a stream of the handle's device", product.multiply(), 13);
  }
  answer(3, "a product with its own device current", product.multiply(), 0);
  REQUIRE_OK(cudaDeviceSynchronize());
  (void)cudaGetLastError();
}

TEST_CASE("experiment 4: a cuBLAS handle with a stream of another device") {
  NEEDS_DEVICES(2);
  const Product product;
  REQUIRE_OK(cudaSetDevice(1));
  TestStream other;
  REQUIRE_OK(cudaSetDevice(0));
  answer(4, "cublasSetStream with a stream of another device", cublasSetStream(product.handle, other.stream), 0);
  answer(4, "a product in it", product.multiply(), 13);
  REQUIRE(cublasSetStream(product.handle, nullptr) == CUBLAS_STATUS_SUCCESS);
  answer(4, "a product in the default stream after it", product.multiply(), 0);
  REQUIRE_OK(cudaDeviceSynchronize());
  (void)cudaGetLastError();
}

TEST_CASE("experiment 6: times between odd events") {
  (void)cudaGetLastError();
  cudaEvent_t first = nullptr, second = nullptr, elsewhere = nullptr;
  REQUIRE_OK(cudaEventCreate(&first));
  REQUIRE_OK(cudaEventCreate(&second));
  REQUIRE_OK(cudaEventRecord(first));
  REQUIRE_OK(cudaEventRecord(second));
  REQUIRE_OK(cudaDeviceSynchronize());
  float milliseconds = 1;
  answer(6, "cudaEventElapsedTime from the later to the earlier", cudaEventElapsedTime(&milliseconds, second, first),
         0);
  answer(6, "the time is not above 0", milliseconds <= 0, 1);
  if (device_count() > 1) {
    {
      OnDevice one(1);
      REQUIRE_OK(cudaEventCreate(&elsewhere));
      REQUIRE_OK(cudaEventRecord(elsewhere));
      REQUIRE_OK(cudaDeviceSynchronize());
    }
    answer(6, "cudaEventElapsedTime over two devices", cudaEventElapsedTime(&milliseconds, first, elsewhere), 400);
    REQUIRE_OK(cudaEventDestroy(elsewhere));
  }
  REQUIRE_OK(cudaEventDestroy(first));
  REQUIRE_OK(cudaEventDestroy(second));
  (void)cudaGetLastError();
}

namespace {

// Whether a call waits for work in a non-blocking stream of device 0. The manual lets each of them.
template <class Call>
void answer_wait(const std::string& what, Call call) {
  TestStream queue;
  Gate gate(queue.stream);
  Attempt attempt(call);
  answer(12, what + " waits for a busy non-blocking stream", !attempt.returns_soon(), kAny);
  gate.open();
  answer(12, what, attempt.result(), 0);
}

}  // namespace

TEST_CASE("experiment 12: what waits for a busy stream", "[eager]") {
  static void *allocated, *to_free, *pinned, *pinned_to_free;
  static char pageable[4096];
  static char value = 1;
  REQUIRE_OK(cudaMalloc(&to_free, 64));
  REQUIRE_OK(cudaMallocHost(&pinned_to_free, 64));
  Malloced<char> block(64);
  cudaMemPool_t pool = nullptr;
  REQUIRE_OK(cudaDeviceGetDefaultMemPool(&pool, 0));
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  answer_wait("cudaMalloc", [] { return cudaMalloc(&allocated, 64); });
  answer_wait("cudaFree", [] { return cudaFree(to_free); });
  answer_wait("cudaMallocHost", [] { return cudaMallocHost(&pinned, 64); });
  answer_wait("cudaFreeHost", [] { return cudaFreeHost(pinned_to_free); });
  answer_wait("cudaHostRegister", [] { return cudaHostRegister(pageable, sizeof pageable, cudaHostRegisterDefault); });
  answer_wait("cudaStreamCreate", [&] { return cudaStreamCreate(&stream); });
  answer_wait("cudaEventCreate", [&] { return cudaEventCreate(&event); });
  answer_wait("cudaMemcpy", [&] { return cudaMemcpy(block.pointer, &value, 1, cudaMemcpyHostToDevice); });
  answer_wait("cudaMemset", [&] { return cudaMemset(block.pointer, 0, 64); });
  answer_wait("cudaMemPoolTrimTo", [&] { return cudaMemPoolTrimTo(pool, 0); });
  REQUIRE_OK(cudaFree(allocated));
  REQUIRE_OK(cudaFreeHost(pinned));
  REQUIRE_OK(cudaHostUnregister(pageable));
  REQUIRE_OK(cudaStreamDestroy(stream));
  REQUIRE_OK(cudaEventDestroy(event));
}

namespace {

// Two ranks; the first one's call is odd. The code, and that of a right call afterwards.
void reduce_oddly(const std::string& what) {
  ncclComm_t ranks[2] = {};
  REQUIRE(ncclCommInitAll(ranks, 2, nullptr) == ncclSuccess);
  REQUIRE_OK(cudaSetDevice(1));
  Malloced<float> there(4);
  there.set({1, 2, 3, 4});
  TestStream there_queue;
  REQUIRE_OK(cudaSetDevice(0));
  Malloced<float> here(4);
  here.set({1, 2, 3, 4});
  TestStream here_queue;
  static float on_host[4];
  float* const odd = what == "a NULL buffer" ? nullptr : what == "a pageable buffer" ? on_host : here.pointer;
  const cudaStream_t stream = what == "a stream of another device" ? there_queue.stream : here_queue.stream;
  const auto reduce = [&](float* mine, cudaStream_t queue) {
    REQUIRE(ncclGroupStart() == ncclSuccess);
    (void)ncclAllReduce(mine, mine, 4, ncclFloat, ncclSum, ranks[0], queue);
    (void)ncclAllReduce(there.pointer, there.pointer, 4, ncclFloat, ncclSum, ranks[1], there_queue.stream);
    return static_cast<int>(ncclGroupEnd());
  };
  answer(13, "an all-reduce with " + what, reduce(odd, stream), kAny);
  answer(13, "a synchronisation after " + what, cudaStreamSynchronize(here_queue.stream), kAny);
  answer(13, "a right all-reduce after " + what, reduce(here.pointer, here_queue.stream), kAny);
  std::fflush(stdout);
  std::_Exit(0);  // what is left after an error may hang
}

}  // namespace

TEST_CASE("child: experiment 13", "[.]") {
  reduce_oddly(std::getenv("FANOUT_EXPERIMENT_BUFFER"));
}
TEST_CASE("experiment 13: collectives with a wrong stream or buffer") {
  NEEDS_DEVICES(2);
  for (const char* what : {"a NULL buffer", "a pageable buffer", "a stream of another device"})
    answer_in_child(13, what, "child: experiment 13", {{"FANOUT_EXPERIMENT_BUFFER", what}});
}

TEST_CASE("child: experiment 15", "[.]") {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  const char* const order = std::getenv("CUDA_DEVICE_ORDER");
  const std::string visible = "CUDA_VISIBLE_DEVICES='" + std::string(std::getenv("CUDA_VISIBLE_DEVICES")) + "'" +
                              (order ? " with CUDA_DEVICE_ORDER='" + std::string(order) + "'" : "");
  const long long guess = std::stoll(std::getenv("FANOUT_EXPERIMENT_GUESS"));
  answer(15, visible + ", devices", count, guess);
  answer(15, visible + ", code", error, guess == 0 ? 100 : 0);
}
TEST_CASE("experiment 15: how CUDA_VISIBLE_DEVICES is read") {
  const auto ask = [](const char* list, const char* guess, const char* order = nullptr) {
    answer_in_child(15, list, "child: experiment 15",
                    {{"CUDA_VISIBLE_DEVICES", list}, {"FANOUT_EXPERIMENT_GUESS", guess}, {"CUDA_DEVICE_ORDER", order}});
  };
  ask("0,0", "0");
  ask("0gpu", "1");
  ask(" 0", "1");
  ask("+0", "1");
  ask("-0", "1");
  ask("0,,0", "1");
  ask("0,", "1");
  ask(",0", "0");
  ask("gpu-00000000", "0");
  ask("0", "1", "no such order");
}

TEST_CASE("experiment 18: one of several ranks is destroyed") {
  NEEDS_DEVICES(2);
  const int count = std::min(device_count(), 4);
  std::vector<ncclComm_t> ranks(static_cast<std::size_t>(count));
  REQUIRE(ncclCommInitAll(ranks.data(), count, nullptr) == ncclSuccess);
  answer(18, "ncclCommDestroy of one of several ranks", ncclCommDestroy(ranks[0]), 0);
  int rank = -1;
  answer(18, "ncclCommUserRank of another one after it", ncclCommUserRank(ranks[1], &rank), 0);
  answer(18, "its rank", rank, 1);
  for (int i = 1; i < count; ++i)
    answer(18, "ncclCommDestroy of the next", ncclCommDestroy(ranks[static_cast<std::size_t>(i)]), 0);
}

TEST_CASE("experiment 20: calls without a place for their result") {
  (void)cudaGetLastError();
  TestStream queue;
  cudaEvent_t event = nullptr;
  REQUIRE_OK(cudaEventCreate(&event));
  REQUIRE_OK(cudaEventRecord(event));
  REQUIRE_OK(cudaEventSynchronize(event));
  const auto ask = [](const char* call, cudaError_t error, int guess = cudaErrorInvalidValue) {
    answer(20, std::string(call) + " with NULL", error, guess);
    (void)cudaGetLastError();
  };
  ask("cudaGetDeviceCount", cudaGetDeviceCount(nullptr));
  ask("cudaGetDevice", cudaGetDevice(nullptr));
  ask("cudaGetDeviceProperties", cudaGetDeviceProperties(nullptr, 0));
  ask("cudaGetDeviceProperties of no device", cudaGetDeviceProperties(nullptr, -1), kAny);
  ask("cudaDeviceGetAttribute", cudaDeviceGetAttribute(nullptr, cudaDevAttrWarpSize, 0));
  ask("cudaDeviceGetPCIBusId", cudaDeviceGetPCIBusId(nullptr, 16, 0));
  ask("cudaMemGetInfo", cudaMemGetInfo(nullptr, nullptr), kAny);
  ask("cudaRuntimeGetVersion", cudaRuntimeGetVersion(nullptr));
  ask("cudaMalloc", cudaMalloc(static_cast<void**>(nullptr), 16));
  ask("cudaMalloc of 0 bytes", cudaMalloc(static_cast<void**>(nullptr), 0), kAny);
  ask("cudaMallocHost", cudaMallocHost(static_cast<void**>(nullptr), 16));
  ask("cudaMallocAsync", cudaMallocAsync(static_cast<void**>(nullptr), 16, queue.stream));
  ask("cudaDeviceGetDefaultMemPool", cudaDeviceGetDefaultMemPool(nullptr, 0));
  ask("cudaStreamCreate", cudaStreamCreate(nullptr));
  ask("cudaStreamGetFlags", cudaStreamGetFlags(queue.stream, nullptr));
  ask("cudaStreamGetPriority", cudaStreamGetPriority(queue.stream, nullptr));
  ask("cudaEventCreate", cudaEventCreate(nullptr));
  ask("cudaEventElapsedTime", cudaEventElapsedTime(nullptr, event, event));
  ask("cudaEventRecord of no event", cudaEventRecord(nullptr), cudaErrorInvalidResourceHandle);
  ask("cudaLaunchHostFunc", cudaLaunchHostFunc(queue.stream, nullptr, nullptr));
  REQUIRE_OK(cudaEventDestroy(event));
}
