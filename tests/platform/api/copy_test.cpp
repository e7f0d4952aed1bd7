// SPDX-License-Identifier: Apache-2.0
// Copies and fills.
#include <numeric>

#include "tests/platform/api/cuda_check.h"

using namespace fanout::test;

namespace {
std::vector<int> counting(std::size_t elements) {
  std::vector<int> values(elements);
  std::iota(values.begin(), values.end(), 1);
  return values;
}
}  // namespace

TEST_CASE("a round trip host, device, device, host keeps every byte") {
  const std::vector<int> values = counting(1013);
  const std::size_t bytes = values.size() * sizeof(int);
  const bool infer = GENERATE(false, true);
  TestStream queue;
  Malloced<int> first(values.size()), second(values.size());
  std::vector<int> back(values.size());
  const auto kind = [&](cudaMemcpyKind exact) { return infer ? cudaMemcpyDefault : exact; };
  REQUIRE_OK(cudaMemcpyAsync(first.pointer, values.data(), bytes, kind(cudaMemcpyHostToDevice), queue.stream));
  REQUIRE_OK(cudaMemcpyAsync(second.pointer, first.pointer, bytes, kind(cudaMemcpyDeviceToDevice), queue.stream));
  REQUIRE_OK(cudaMemcpyAsync(back.data(), second.pointer, bytes, kind(cudaMemcpyDeviceToHost), queue.stream));
  REQUIRE_OK(cudaStreamSynchronize(queue.stream));
  REQUIRE(back == values);
}

TEST_CASE("host to host is done when the call returns") {
  const std::vector<int> values = counting(10);
  std::vector<int> back(10);
  REQUIRE_OK(cudaMemcpy(back.data(), values.data(), 40, cudaMemcpyHostToHost));
  REQUIRE(back == values);
}

TEST_CASE("a copy of 0 bytes touches nothing") {
  Malloced<int> block(4);
  int host = 1;
  REQUIRE_OK(cudaMemcpy(block.pointer, &host, 0, cudaMemcpyHostToDevice));
  REQUIRE_OK(cudaMemcpyAsync(&host, block.pointer, 0, cudaMemcpyDeviceToHost));
  REQUIRE_OK(cudaMemcpy2D(block.pointer, 4, &host, 4, 4, 0, cudaMemcpyHostToDevice));
  REQUIRE_OK(cudaMemset(block.pointer, 0, 0));
  REQUIRE(host == 1);
}

TEST_CASE("NULL and ranges past the end of an allocation are 1, a kind that does not exist is 21") {
  Malloced<int> block(100);
  std::vector<int> host(200);
  const auto direction = cudaMemcpyHostToDevice;
  REQUIRE(cudaMemcpy(nullptr, host.data(), 4, direction) == cudaErrorInvalidValue);
  REQUIRE(cudaMemcpy(block.pointer, nullptr, 4, direction) == cudaErrorInvalidValue);
  REQUIRE(cudaMemcpy(block.pointer, host.data(), std::size_t{1} << 40, direction) == cudaErrorInvalidValue);
  REQUIRE(cudaMemcpy(block.pointer, host.data(), 4, static_cast<cudaMemcpyKind>(5)) == cudaErrorInvalidMemcpyDirection);
  REQUIRE(cudaGetLastError() == cudaErrorInvalidMemcpyDirection);
  REQUIRE_OK(cudaMemcpy(block.pointer + 99, host.data(), 4, direction));
}

TEST_CASE("a peer copy needs no peer access and no particular current device") {
  NEEDS_DEVICES(2);
  const int last = device_count() - 1;
  const std::vector<int> values = counting(4099);
  Malloced<int> source(values.size());
  source.set(values);
  OnDevice current(last);
  Malloced<int> target(values.size());
  TestStream queue;
  REQUIRE_OK(cudaSetDevice(0));
  REQUIRE_OK(cudaMemcpyPeerAsync(target.pointer, last, source.pointer, 0, values.size() * 4, queue.stream));
  REQUIRE_OK(cudaStreamSynchronize(queue.stream));
  REQUIRE_OK(cudaSetDevice(last));
  REQUIRE(target.get() == values);
  REQUIRE_OK(cudaMemset(target.pointer, 0, values.size() * 4));
  REQUIRE_OK(cudaMemcpyPeer(target.pointer, last, source.pointer, 0, values.size() * 4));
  REQUIRE(target.get() == values);
  REQUIRE(cudaMemcpyPeer(target.pointer, device_count(), source.pointer, 0, 4) == cudaErrorInvalidDevice);
  REQUIRE(cudaMemcpyPeer(nullptr, last, source.pointer, 0, 4) == cudaErrorInvalidValue);
  REQUIRE_OK(cudaMemcpyPeer(target.pointer, last, source.pointer, 0, 0));
  (void)cudaGetLastError();
}

TEST_CASE("cudaMemcpyAsync crosses devices in a stream whose device is not current") {
  NEEDS_DEVICES(2);
  const std::vector<int> values = counting(100);
  Malloced<int> source(100);
  source.set(values);
  TestStream queue;
  OnDevice current(1);
  Malloced<int> target(100);
  REQUIRE_OK(cudaMemcpyAsync(target.pointer, source.pointer, 400, cudaMemcpyDeviceToDevice, queue.stream));
  REQUIRE_OK(cudaStreamSynchronize(queue.stream));
  REQUIRE(target.get() == values);
}

TEST_CASE("cudaMemcpyPeerAsync copies pool memory of any device with any device current") {
  NEEDS_DEVICES(2);
  TestStream queue;  // of device 0
  OnDevice current(1);
  TestStream other;
  int *source = nullptr, *target = nullptr, value = 7, back = 0;
  REQUIRE_OK(cudaMallocAsync(&target, sizeof(int), other.stream));
  REQUIRE_OK(cudaMemsetAsync(target, 0, sizeof(int), other.stream));
  REQUIRE_OK(cudaStreamSynchronize(other.stream));
  REQUIRE_OK(cudaSetDevice(0));
  REQUIRE_OK(cudaMallocAsync(&source, sizeof(int), queue.stream));
  REQUIRE_OK(cudaMemcpyAsync(source, &value, sizeof(int), cudaMemcpyHostToDevice, queue.stream));
  REQUIRE_OK(cudaSetDevice(1));
  REQUIRE_OK(cudaMemcpyPeerAsync(target, 1, source, 0, sizeof(int), queue.stream));
  REQUIRE_OK(cudaStreamSynchronize(queue.stream));
  REQUIRE_OK(cudaMemcpyAsync(&back, target, sizeof(int), cudaMemcpyDeviceToHost, other.stream));
  REQUIRE_OK(cudaStreamSynchronize(other.stream));
  REQUIRE(back == 7);
  REQUIRE_OK(cudaFreeAsync(target, other.stream));
  REQUIRE_OK(cudaFreeAsync(source, queue.stream));
}

TEST_CASE("a 2-D copy moves columns between different pitches") {
  // Columns 1 and 2 of a [3, 4] matrix go to columns 0 and 1 of a [3, 3] one.
  Malloced<int> matrix(12), narrow(9);
  matrix.set(counting(12));
  narrow.set(std::vector<int>(9, 0));
  REQUIRE_OK(cudaMemcpy2D(narrow.pointer, 12, matrix.pointer + 1, 16, 8, 3, cudaMemcpyDeviceToDevice));
  REQUIRE(narrow.get() == std::vector<int>{2, 3, 0, 6, 7, 0, 10, 11, 0});
  REQUIRE(cudaMemcpy2D(narrow.pointer, 4, matrix.pointer, 16, 8, 3, cudaMemcpyDeviceToDevice) ==
          cudaErrorInvalidPitchValue);
  REQUIRE(cudaMemcpy2D(nullptr, 12, matrix.pointer, 16, 8, 3, cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST_CASE("a fill writes the low byte of its value, to device or pinned memory only") {
  Malloced<unsigned> block(6);
  REQUIRE_OK(cudaMemset(block.pointer, 0x1234, 24));
  REQUIRE(block.get() == std::vector<unsigned>(6, 0x34343434));
  REQUIRE_OK(cudaMemset2DAsync(block.pointer, 8, 0, 4, 3));
  REQUIRE(block.get() == std::vector<unsigned>{0, 0x34343434, 0, 0x34343434, 0, 0x34343434});
  unsigned pageable = 1;
  REQUIRE(cudaMemset(&pageable, 0, 4) == cudaErrorInvalidValue);
  REQUIRE(cudaMemset(nullptr, 0, 4) == cudaErrorInvalidValue);
  REQUIRE(cudaMemset(block.pointer, 0, std::size_t{1} << 40) == cudaErrorInvalidValue);
  REQUIRE(cudaMemset2DAsync(block.pointer, 4, 0, 8, 2) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
  unsigned* pinned = nullptr;
  REQUIRE_OK(cudaMallocHost(&pinned, 4));
  REQUIRE_OK(cudaMemset(pinned, 7, 4));
  REQUIRE_OK(cudaDeviceSynchronize());
  REQUIRE(*pinned == 0x07070707);
  REQUIRE_OK(cudaFreeHost(pinned));
}
