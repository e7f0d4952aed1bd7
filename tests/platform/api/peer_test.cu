// SPDX-License-Identifier: Apache-2.0
// Peer access, and kernels that touch memory of other places.
#include "tests/platform/api/child_process.h"
#include "tests/platform/api/cuda_check.h"

using namespace fanout::test;

namespace {

__global__ void add_one_kernel(int* y, const int* x, int n) {
  for (int i = 0; i < n; ++i) y[i] = x[i] + 1;
}

cudaError_t add_one(cudaStream_t stream, int* y, const int* x, int n) {
  cudaLaunchConfig_t config{};
  config.gridDim = config.blockDim = dim3(1);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, add_one_kernel, y, x, n);
}

bool capable(int device, int peer) {
  int can = 0;
  REQUIRE_OK(cudaDeviceCanAccessPeer(&can, device, peer));
  return can != 0;
}

}  // namespace

TEST_CASE("a device is not its own peer, and devices outside the list are 101") {
  REQUIRE(!capable(0, 0));
  int can = 5;
  REQUIRE(cudaDeviceCanAccessPeer(&can, 0, device_count()) == cudaErrorInvalidDevice);
  REQUIRE(can == 5);
  REQUIRE(cudaDeviceCanAccessPeer(nullptr, 0, 0) == cudaErrorInvalidValue);
  REQUIRE(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorInvalidDevice);
  REQUIRE(cudaDeviceEnablePeerAccess(-1, 0) == cudaErrorInvalidDevice);
  REQUIRE(cudaDeviceEnablePeerAccess(-1, 1) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST_CASE("peer access is enabled once, is remembered as error 704 the second time, and goes one way") {
  NEEDS_DEVICES(2);
  if (!capable(0, 1)) return;
  (void)cudaGetLastError();
  REQUIRE_OK(cudaDeviceEnablePeerAccess(1, 0));
  REQUIRE(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
  REQUIRE(cudaGetLastError() == cudaErrorPeerAccessAlreadyEnabled);
  {
    OnDevice one(1);
    REQUIRE(cudaDeviceDisablePeerAccess(0) == cudaErrorPeerAccessNotEnabled);
  }
  REQUIRE_OK(cudaDeviceDisablePeerAccess(1));
  REQUIRE(cudaDeviceDisablePeerAccess(1) == cudaErrorPeerAccessNotEnabled);
  (void)cudaGetLastError();
}

TEST_CASE("with peer access a kernel reads the peer's cudaMalloc memory") {
  NEEDS_DEVICES(2);
  if (!capable(0, 1)) return;
  Malloced<int> sum(3);
  REQUIRE_OK(cudaSetDevice(1));
  Malloced<int> far(3);
  far.set({4, 5, 6});
  REQUIRE_OK(cudaSetDevice(0));
  REQUIRE_OK(cudaDeviceEnablePeerAccess(1, 0));
  cudaPointerAttributes attributes;
  REQUIRE_OK(cudaPointerGetAttributes(&attributes, far.pointer));
  REQUIRE(attributes.devicePointer == far.pointer);
  REQUIRE_OK(add_one(nullptr, sum.pointer, far.pointer, 3));
  REQUIRE(sum.get() == std::vector<int>{5, 6, 7});
  REQUIRE_OK(cudaDeviceDisablePeerAccess(1));
  REQUIRE_OK(cudaPointerGetAttributes(&attributes, far.pointer));
  REQUIRE(attributes.devicePointer == nullptr);
}

TEST_CASE("a kernel reads and writes pinned host memory") {
  int* pinned = nullptr;
  REQUIRE_OK(cudaMallocHost(&pinned, 3 * sizeof(int)));
  for (int i = 0; i < 3; ++i) pinned[i] = i;
  REQUIRE_OK(add_one(nullptr, pinned, pinned, 3));
  REQUIRE_OK(cudaDeviceSynchronize());
  REQUIRE((pinned[0] == 1 && pinned[1] == 2 && pinned[2] == 3));
  REQUIRE_OK(cudaFreeHost(pinned));
}

// The following run in processes of their own: the device is of no use afterwards.

TEST_CASE("child: a peer's memory without peer access", "[.]") {
  Malloced<int> near(1);
  REQUIRE_OK(cudaSetDevice(1));
  Malloced<int> far(1);
  REQUIRE_OK(cudaSetDevice(0));
  TestStream queue;
  REQUIRE_OK(add_one(queue.stream, near.pointer, far.pointer, 1));  // the launch itself is good
  REQUIRE(cudaStreamSynchronize(queue.stream) == cudaErrorIllegalAddress);
  // Sticky: every later call says so, in every thread, and cudaGetLastError does not cure it.
  REQUIRE(cudaGetLastError() == cudaErrorIllegalAddress);
  REQUIRE(cudaGetLastError() == cudaErrorIllegalAddress);
  void* pointer = nullptr;
  REQUIRE(cudaMalloc(&pointer, 16) == cudaErrorIllegalAddress);
  REQUIRE(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  REQUIRE(add_one(queue.stream, near.pointer, near.pointer, 1) == cudaErrorIllegalAddress);
}
TEST_CASE("a kernel that touches a peer's memory without peer access is the sticky error 700") {
  NEEDS_DEVICES(2);
  const ChildResult child = run_in_child("child: a peer's memory without peer access");
  INFO(child.output);
  REQUIRE(child.exit_status == 0);
}

TEST_CASE("child: a peer's pool memory with peer access only", "[.]") {
  Malloced<int> near(1);
  OnDevice one(1);
  TestStream other;
  int* far = nullptr;
  REQUIRE_OK(cudaMallocAsync(&far, sizeof(int), other.stream));
  REQUIRE_OK(cudaMemsetAsync(far, 0, sizeof(int), other.stream));
  REQUIRE_OK(cudaStreamSynchronize(other.stream));
  REQUIRE_OK(cudaSetDevice(0));
  if (!capable(0, 1)) return;
  REQUIRE_OK(cudaDeviceEnablePeerAccess(1, 0));
  REQUIRE_OK(add_one(nullptr, near.pointer, far, 1));
  REQUIRE(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
}
TEST_CASE("peer access does not reach the peer's pools") {
  NEEDS_DEVICES(2);
  const ChildResult child = run_in_child("child: a peer's pool memory with peer access only");
  INFO(child.output);
  REQUIRE(child.exit_status == 0);
}

TEST_CASE("child: a peer's pool memory with pool access", "[.]") {
  Malloced<int> near(1);
  OnDevice one(1);
  TestStream other;
  int* far = nullptr;
  REQUIRE_OK(cudaMallocAsync(&far, sizeof(int), other.stream));
  REQUIRE_OK(cudaMemsetAsync(far, 0, sizeof(int), other.stream));
  REQUIRE_OK(cudaStreamSynchronize(other.stream));
  if (!capable(0, 1)) return;
  cudaMemPool_t pool = nullptr;
  REQUIRE_OK(cudaDeviceGetDefaultMemPool(&pool, 1));
  const cudaMemAccessDesc description{{cudaMemLocationTypeDevice, 0}, cudaMemAccessFlagsProtReadWrite};
  REQUIRE_OK(cudaMemPoolSetAccess(pool, &description, 1));
  REQUIRE_OK(cudaSetDevice(0));
  REQUIRE_OK(add_one(nullptr, near.pointer, far, 1));
  REQUIRE_OK(cudaDeviceSynchronize());
  REQUIRE(near.get() == std::vector<int>{1});
}
TEST_CASE("pool access lets a kernel read the peer's pool without peer access") {
  NEEDS_DEVICES(2);
  const ChildResult child = run_in_child("child: a peer's pool memory with pool access");
  INFO(child.output);
  REQUIRE(child.exit_status == 0);
}
