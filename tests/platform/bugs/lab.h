// SPDX-License-Identifier: Apache-2.0
// What the small wrong programs work with.
#pragma once

#include <nccl.h>

#include "tests/platform/api/cuda_check.h"

namespace fanout::test {

inline constexpr int kCount = 256;
inline constexpr std::size_t kBytes = kCount * sizeof(float);

// Two non-blocking streams of a device, memory of cudaMalloc, and an event.
struct Lab {
  explicit Lab(int device_ = 0) : device(device_) {
    const OnDevice current(device);
    REQUIRE_OK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    REQUIRE_OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    REQUIRE_OK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
    REQUIRE_OK(cudaMalloc(&a, kBytes));
    REQUIRE_OK(cudaMalloc(&b, kBytes));
    REQUIRE_OK(cudaMemset(a, 0, kBytes));
    REQUIRE_OK(cudaMemset(b, 0, kBytes));
    REQUIRE_OK(cudaDeviceSynchronize());
  }
  ~Lab() {
    (void)cudaSetDevice(device);
    (void)cudaFree(a);
    (void)cudaFree(b);
    (void)cudaEventDestroy(done);
    (void)cudaStreamDestroy(first);
    (void)cudaStreamDestroy(second);
    (void)cudaSetDevice(0);
  }
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  /// What follows in `to` comes behind what is in `from`.
  void order(cudaStream_t from, cudaStream_t to) const {
    REQUIRE_OK(cudaEventRecord(done, from));
    REQUIRE_OK(cudaStreamWaitEvent(to, done));
  }

  int device;
  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t done = nullptr;
  float *a = nullptr, *b = nullptr;
};

struct Pinned {
  Pinned() { REQUIRE_OK(cudaMallocHost(&data, kBytes)); }
  ~Pinned() { (void)cudaFreeHost(data); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  float* data = nullptr;
};

// One communicator of two devices, each rank with a stream of its lab.
struct Pair {
  Pair() { REQUIRE(ncclCommInitAll(ranks, 2, nullptr) == ncclSuccess); }
  ~Pair() {
    for (const ncclComm_t rank : ranks) (void)ncclCommDestroy(rank);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ncclComm_t ranks[2] = {};
};

}  // namespace fanout::test
