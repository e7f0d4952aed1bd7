// SPDX-License-Identifier: Apache-2.0
// FANOUT_SIM_MODE=late: code that forgets to wait fails every time, its corrected twin never does. Each program is run
// in processes of its own, with several seeds.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "tests/platform/api/child_process.h"
#include "tests/platform/api/cuda_check.h"

using namespace fanout::test;

namespace {

constexpr int kCount = 64;
constexpr std::size_t kBytes = kCount * sizeof(int);

// A right program succeeds with every seed. A wrong one fails with those in which nothing runs before its time.
void check_in_late_mode(const char* child, bool succeeds) {
  const std::vector<const char*> every{"0", "1", "2", "3", "4", "5", "6", "7"}, strict{"0", "3", "6", "9"};
  for (const char* seed : succeeds ? every : strict) {
    INFO(child << ", seed " << seed);
    const ChildResult result = run_in_child(child, {{"FANOUT_SIM_MODE", "late"},
                                                    {"FANOUT_SIM_SEED", seed},
                                                    {"FANOUT_SIM_POISON", "1"},
                                                    {"FANOUT_SIM_RACES", "0"}});
    INFO(result.output);
    CHECK(result.signal == 0);
    CHECK((result.exit_status == 0) == succeeds);
  }
}

struct Streams {
  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t done = nullptr;
  int *source = nullptr, *target = nullptr, *host = nullptr;

  Streams() {
    REQUIRE(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking) == cudaSuccess);
    REQUIRE(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking) == cudaSuccess);
    REQUIRE(cudaEventCreateWithFlags(&done, cudaEventDisableTiming) == cudaSuccess);
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&source), kBytes) == cudaSuccess);
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&target), kBytes) == cudaSuccess);
    REQUIRE(cudaMallocHost(reinterpret_cast<void**>(&host), kBytes) == cudaSuccess);
    std::fill_n(host, kCount, 0);
  }

  bool host_holds(int byte) const {
    const int expected = byte * 0x01010101;
    for (int i = 0; i < kCount; ++i) {
      if (host[i] != expected) return false;
    }
    return true;
  }
};

// The first stream fills, the second copies.
void fill_and_copy(Streams& s, bool waits) {
  REQUIRE(cudaMemsetAsync(s.source, 7, kBytes, s.first) == cudaSuccess);
  if (waits) {
    REQUIRE(cudaEventRecord(s.done, s.first) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(s.second, s.done, 0) == cudaSuccess);
  }
  REQUIRE(cudaMemcpyAsync(s.target, s.source, kBytes, cudaMemcpyDeviceToDevice, s.second) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(s.host, s.target, kBytes, cudaMemcpyDeviceToHost, s.second) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(s.second) == cudaSuccess);
}

void read_back(Streams& s, bool waits) {
  REQUIRE(cudaMemsetAsync(s.source, 7, kBytes, s.first) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(s.host, s.source, kBytes, cudaMemcpyDeviceToHost, s.first) == cudaSuccess);
  if (waits) REQUIRE(cudaStreamSynchronize(s.first) == cudaSuccess);
}

void send_and_overwrite(Streams& s, bool waits) {
  std::fill_n(s.host, kCount, 0x07070707);
  REQUIRE(cudaMemcpyAsync(s.source, s.host, kBytes, cudaMemcpyHostToDevice, s.first) == cudaSuccess);
  if (waits) REQUIRE(cudaStreamSynchronize(s.first) == cudaSuccess);
  std::fill_n(s.host, kCount, 1);
  REQUIRE(cudaMemcpyAsync(s.host, s.source, kBytes, cudaMemcpyDeviceToHost, s.first) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(s.first) == cudaSuccess);
}

// The first stream frees a block and gets it again while the second one still reads it.
void free_and_reuse(Streams& s, bool waits) {
  void* block = nullptr;
  REQUIRE(cudaMallocAsync(&block, kBytes, s.first) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(block, 7, kBytes, s.first) == cudaSuccess);
  REQUIRE(cudaEventRecord(s.done, s.first) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(s.second, s.done, 0) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(s.host, block, kBytes, cudaMemcpyDeviceToHost, s.second) == cudaSuccess);
  if (waits) {
    REQUIRE(cudaEventRecord(s.done, s.second) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(s.first, s.done, 0) == cudaSuccess);
  }
  REQUIRE(cudaFreeAsync(block, s.first) == cudaSuccess);
  void* again = nullptr;
  REQUIRE(cudaMallocAsync(&again, kBytes, s.first) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(again, 1, kBytes, s.first) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(s.first) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(s.second) == cudaSuccess);
}

// A synchronous copy from pageable memory has staged it, but it is not ordered with a non-blocking stream.
void copy_from_pageable(Streams& s, bool waits) {
  const std::vector<int> values(kCount, 0x07070707);
  REQUIRE(cudaMemcpy(s.source, values.data(), kBytes, cudaMemcpyHostToDevice) == cudaSuccess);
  if (waits) REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(s.host, s.source, kBytes, cudaMemcpyDeviceToHost, s.first) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(s.first) == cudaSuccess);
}

}  // namespace

#define FANOUT_LATE_PAIR(program)                          \
  TEST_CASE("child: " #program " without a wait", "[.]") { \
    Streams streams;                                       \
    program(streams, false);                               \
    REQUIRE(streams.host_holds(7));                        \
  }                                                        \
  TEST_CASE("child: " #program " with a wait", "[.]") {    \
    Streams streams;                                       \
    program(streams, true);                                \
    REQUIRE(streams.host_holds(7));                        \
  }
FANOUT_LATE_PAIR(fill_and_copy)
FANOUT_LATE_PAIR(read_back)
FANOUT_LATE_PAIR(send_and_overwrite)
FANOUT_LATE_PAIR(copy_from_pageable)
FANOUT_LATE_PAIR(free_and_reuse)
#undef FANOUT_LATE_PAIR

TEST_CASE("late mode: a stream that does not wait for another one's event reads what is not there yet", "[eager]") {
  check_in_late_mode("child: fill_and_copy without a wait", false);
  check_in_late_mode("child: fill_and_copy with a wait", true);
}

TEST_CASE("late mode: pinned memory that a copy has not reached yet holds no result", "[eager]") {
  check_in_late_mode("child: read_back without a wait", false);
  check_in_late_mode("child: read_back with a wait", true);
}

TEST_CASE("late mode: a pinned source that is overwritten before its copy ran is sent as it is then", "[eager]") {
  check_in_late_mode("child: send_and_overwrite without a wait", false);
  check_in_late_mode("child: send_and_overwrite with a wait", true);
}

TEST_CASE("late mode: a copy from pageable memory is not ordered with non-blocking streams", "[eager]") {
  check_in_late_mode("child: copy_from_pageable without a wait", false);
  check_in_late_mode("child: copy_from_pageable with a wait", true);
}

TEST_CASE("late mode: memory that is freed in one stream is still there for another one only if that one is waited for",
          "[eager]") {
  check_in_late_mode("child: free_and_reuse without a wait", false);
  check_in_late_mode("child: free_and_reuse with a wait", true);
}

TEST_CASE("child: default stream", "[.]") {
  Streams s;
  cudaStream_t blocking = nullptr;
  REQUIRE(cudaStreamCreate(&blocking) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(s.source, 1, kBytes, blocking) == cudaSuccess);
  REQUIRE(cudaMemset(s.source, 7, kBytes) == cudaSuccess);  // after what the blocking stream holds
  REQUIRE(cudaMemcpyAsync(s.host, s.source, kBytes, cudaMemcpyDeviceToHost, blocking) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(blocking) == cudaSuccess);
  REQUIRE(s.host_holds(7));
}
TEST_CASE("late mode: blocking streams and the default stream keep their order without any event", "[eager]") {
  check_in_late_mode("child: default stream", true);
}

TEST_CASE("child: polling", "[.]") {
  Streams s;
  REQUIRE(cudaMemsetAsync(s.source, 7, kBytes, s.first) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(s.host, s.source, kBytes, cudaMemcpyDeviceToHost, s.first) == cudaSuccess);
  REQUIRE(cudaEventRecord(s.done, s.first) == cudaSuccess);
  REQUIRE(cudaEventQuery(s.done) == cudaErrorNotReady);
  while (cudaEventQuery(s.done) == cudaErrorNotReady) std::this_thread::yield();
  REQUIRE(s.host_holds(7));
  REQUIRE(cudaStreamQuery(s.first) == cudaSuccess);
}
TEST_CASE("late mode: asking whether an event has passed brings the host there", "[eager]") {
  check_in_late_mode("child: polling", true);
}

TEST_CASE("child: flag", "[.]") {
  Streams s;
  std::atomic<bool> flag{false};
  REQUIRE(cudaLaunchHostFunc(
              s.first, [](void* data) { *static_cast<std::atomic<bool>*>(data) = true; }, &flag) == cudaSuccess);
  REQUIRE_FALSE(flag);
  while (!flag) std::this_thread::yield();
}
TEST_CASE("late mode: a host that only waits for a flag of the device gets there as well", "[eager]") {
  check_in_late_mode("child: flag", true);
}
