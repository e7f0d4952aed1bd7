// SPDX-License-Identifier: Apache-2.0
// Events.
#include <chrono>
#include <thread>

#include "tests/platform/api/cuda_check.h"

using namespace fanout::test;

namespace {
struct TestEvent {
  explicit TestEvent(unsigned flags = cudaEventDefault) { REQUIRE_OK(cudaEventCreateWithFlags(&event, flags)); }
  ~TestEvent() { (void)cudaEventDestroy(event); }
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;
  cudaEvent_t event = nullptr;
};
}  // namespace

TEST_CASE("an event never recorded is complete, but has no time") {
  TestEvent start, end;
  TestStream queue;
  REQUIRE_OK(cudaEventQuery(start.event));
  REQUIRE_OK(cudaEventSynchronize(start.event));
  REQUIRE_OK(cudaStreamWaitEvent(queue.stream, start.event, 0));
  float milliseconds = -1;
  REQUIRE(cudaEventElapsedTime(&milliseconds, start.event, end.event) == cudaErrorInvalidResourceHandle);
  REQUIRE(milliseconds == -1);
  (void)cudaGetLastError();
}

TEST_CASE("the time between two events is that of a clock") {
  TestEvent start, end;
  TestStream queue;
  REQUIRE_OK(cudaEventRecord(start.event, queue.stream));
  REQUIRE_OK(cudaEventSynchronize(start.event));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  REQUIRE_OK(cudaEventRecord(end.event, queue.stream));
  REQUIRE_OK(cudaEventSynchronize(end.event));
  float milliseconds = 0;
  REQUIRE_OK(cudaEventElapsedTime(&milliseconds, start.event, end.event));
  REQUIRE(milliseconds >= 19);
  REQUIRE(milliseconds < 2000);
  REQUIRE(cudaEventElapsedTime(nullptr, start.event, end.event) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST_CASE("an event without timing gives no time") {
  TestEvent start(cudaEventDisableTiming), end;
  REQUIRE_OK(cudaEventRecord(start.event));
  REQUIRE_OK(cudaEventRecord(end.event));
  REQUIRE_OK(cudaDeviceSynchronize());
  float milliseconds = 0;
  REQUIRE(cudaEventElapsedTime(&milliseconds, start.event, end.event) == cudaErrorInvalidResourceHandle);
  (void)cudaGetLastError();
}

TEST_CASE("an event is recorded only in streams of its own device") {
  NEEDS_DEVICES(2);
  TestEvent event;  // of device 0
  TestStream own;
  OnDevice one(1);
  TestStream other;
  REQUIRE(cudaEventRecord(event.event, other.stream) == cudaErrorInvalidResourceHandle);
  REQUIRE(cudaEventRecord(event.event, nullptr) == cudaErrorInvalidResourceHandle);
  REQUIRE(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  REQUIRE_OK(cudaEventRecord(event.event, own.stream));  // whatever device is current
  REQUIRE_OK(cudaEventSynchronize(event.event));
  REQUIRE_OK(cudaEventQuery(event.event));
}

TEST_CASE("a stream may wait for an event of another device") {
  NEEDS_DEVICES(2);
  Malloced<int> source(1000);
  TestEvent filled(cudaEventDisableTiming);
  TestStream producer;
  REQUIRE_OK(cudaMemsetAsync(source.pointer, 1, 4000, producer.stream));
  REQUIRE_OK(cudaEventRecord(filled.event, producer.stream));
  OnDevice one(1);
  Malloced<int> target(1000);
  TestStream consumer;
  REQUIRE_OK(cudaStreamWaitEvent(consumer.stream, filled.event, 0));
  REQUIRE_OK(cudaMemcpyPeerAsync(target.pointer, 1, source.pointer, 0, 4000, consumer.stream));
  REQUIRE_OK(cudaStreamSynchronize(consumer.stream));
  REQUIRE(target.get() == std::vector<int>(1000, 0x01010101));
}

TEST_CASE("an event hands work over between host threads") {
  NEEDS_DEVICES(1);
  Malloced<int> block(1 << 16);
  std::vector<int> back(1 << 16);
  TestEvent written(cudaEventDisableTiming);
  TestStream producer, consumer;
  std::thread([&] {
    (void)cudaMemsetAsync(block.pointer, 2, back.size() * 4, producer.stream);
    (void)cudaEventRecord(written.event, producer.stream);
  }).join();
  REQUIRE_OK(cudaStreamWaitEvent(consumer.stream, written.event, 0));
  REQUIRE_OK(cudaMemcpyAsync(back.data(), block.pointer, back.size() * 4, cudaMemcpyDeviceToHost, consumer.stream));
  REQUIRE_OK(cudaStreamSynchronize(consumer.stream));
  REQUIRE(back == std::vector<int>(back.size(), 0x02020202));
}

TEST_CASE("a null event is 400, unknown flags are 1") {
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventRecord(nullptr, nullptr) == cudaErrorInvalidResourceHandle);
  REQUIRE(cudaEventQuery(nullptr) == cudaErrorInvalidResourceHandle);
  REQUIRE(cudaEventSynchronize(nullptr) == cudaErrorInvalidResourceHandle);
  REQUIRE(cudaEventDestroy(nullptr) == cudaErrorInvalidResourceHandle);
  REQUIRE(cudaStreamWaitEvent(nullptr, nullptr, 0) == cudaErrorInvalidResourceHandle);
  REQUIRE(cudaEventCreateWithFlags(&event, 0x80) == cudaErrorInvalidValue);
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventInterprocess) == cudaErrorInvalidValue);
  REQUIRE(cudaEventCreate(nullptr) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
}
