// SPDX-License-Identifier: Apache-2.0
// Faults on request: which call they strike, with which error, and that everything else goes on.
#include <csignal>

#include "sim/faults.h"
#include "tests/platform/api/child_process.h"
#include "tests/platform/api/cuda_check.h"

using namespace fanout::test;

namespace {

struct Faults {
  explicit Faults(const char* text) { sim::inject_faults(text); }
  ~Faults() { sim::inject_faults(""); }
};

// Bytes on a device, from cudaMalloc.
struct Bytes {
  Bytes(int device_, int value) : device(device_) {
    const OnDevice current(device);
    REQUIRE_OK(cudaMalloc(&pointer, kBytes));
    REQUIRE_OK(cudaMemset(pointer, value, kBytes));
    REQUIRE_OK(cudaDeviceSynchronize());
  }
  ~Bytes() { (void)cudaFree(pointer); }
  std::vector<unsigned char> get() const {
    std::vector<unsigned char> bytes(kBytes);
    REQUIRE_OK(cudaMemcpy(bytes.data(), pointer, kBytes, cudaMemcpyDeviceToHost));
    return bytes;
  }
  static constexpr std::size_t kBytes = 1000;
  int device;
  void* pointer = nullptr;
};

cudaError_t copy_across(const Bytes& target, const Bytes& source) {
  const cudaError_t error = cudaMemcpyPeer(target.pointer, target.device, source.pointer, source.device, Bytes::kBytes);
  (void)cudaGetLastError();
  return error;
}

int wrong_bytes(const Bytes& bytes, unsigned char value) {
  int wrong = 0;
  for (const unsigned char byte : bytes.get()) wrong += byte != value;
  return wrong;
}

}  // namespace

TEST_CASE("the requested allocation of a device fails with error 2, those before and after it do not") {
  const Faults faults("alloc@1:2,alloc@host:1");
  const auto allocate = [](int device) {
    const OnDevice current(device);
    void* pointer = nullptr;
    const cudaError_t error = cudaMalloc(&pointer, 100);
    if (error == cudaSuccess) REQUIRE_OK(cudaFree(pointer));
    return error;
  };
  CHECK(allocate(0) == cudaSuccess);
  CHECK(allocate(1) == cudaSuccess);
  CHECK(allocate(1) == cudaErrorMemoryAllocation);
  CHECK(allocate(1) == cudaSuccess);
  void* pinned = nullptr;
  CHECK(cudaMallocHost(&pinned, 100) == cudaErrorMemoryAllocation);
  CHECK(cudaMallocHost(&pinned, 100) == cudaSuccess);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
}

TEST_CASE("an allocation from a pool is counted with the others") {
  const Faults faults("alloc@0:1");
  const TestStream stream;
  void* pointer = nullptr;
  CHECK(cudaMallocAsync(&pointer, 100, stream.stream) == cudaErrorMemoryAllocation);
  CHECK(pointer == nullptr);
  REQUIRE_OK(cudaMallocAsync(&pointer, 100, stream.stream));
  REQUIRE_OK(cudaFreeAsync(pointer, stream.stream));
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
}

TEST_CASE("the requested copy returns error 999 and moves nothing") {
  const Bytes a(0, 1);
  const Faults faults("copy@0:2");
  const std::vector<unsigned char> sevens(Bytes::kBytes, 7), eights(Bytes::kBytes, 8);
  CHECK(cudaMemcpy(a.pointer, sevens.data(), Bytes::kBytes, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cudaMemcpy(a.pointer, eights.data(), Bytes::kBytes, cudaMemcpyHostToDevice) == cudaErrorUnknown);
  CHECK(wrong_bytes(a, 7) == 0);
  CHECK(cudaGetLastError() == cudaErrorUnknown);
}

TEST_CASE("a link that goes down refuses copies from then on, in both directions, and peer access") {
  NEEDS_DEVICES(3);
  const Bytes a(0, 1), b(1, 2), c(2, 3);
  const Faults faults("down@0-1:2");
  int can = 0;
  REQUIRE_OK(cudaDeviceCanAccessPeer(&can, 0, 1));
  CHECK(can == 1);
  CHECK(copy_across(b, a) == cudaSuccess);
  CHECK(copy_across(b, a) == cudaErrorPeerAccessUnsupported);
  CHECK(copy_across(a, b) == cudaErrorPeerAccessUnsupported);
  CHECK(copy_across(c, a) == cudaSuccess);
  CHECK(wrong_bytes(c, 1) == 0);
  REQUIRE_OK(cudaDeviceCanAccessPeer(&can, 1, 0));
  CHECK(can == 0);
}

TEST_CASE("a corrupting link flips a bit of each transfer, or of the requested one alone") {
  NEEDS_DEVICES(2);
  const Bytes a(0, 1), b(1, 2);
  const auto wrong_after_copy = [&] {
    REQUIRE(copy_across(b, a) == cudaSuccess);
    return wrong_bytes(b, 1);
  };
  {
    const Faults faults("corrupt-once@0-1:2");
    CHECK(wrong_after_copy() == 0);
    CHECK(wrong_after_copy() == 1);
    CHECK(wrong_after_copy() == 0);
  }
  const Faults faults("corrupt@1-0:2");
  CHECK(wrong_after_copy() == 0);
  CHECK(wrong_after_copy() == 1);
  CHECK(wrong_after_copy() == 1);
}

TEST_CASE("child: the second fill breaks device 1", "[.]") {
  const Bytes a(0, 1), b(1, 2);
  const Faults faults("sticky@1:2");
  REQUIRE_OK(cudaSetDevice(1));
  CHECK(cudaMemset(b.pointer, 5, Bytes::kBytes) == cudaSuccess);
  CHECK(cudaMemset(b.pointer, 6, Bytes::kBytes) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  REQUIRE_OK(cudaSetDevice(0));
  CHECK(wrong_bytes(a, 1) == 0);
}
TEST_CASE("a device that breaks has error 719 at every later call, and other devices go on") {
  NEEDS_DEVICES(2);
  const ChildResult child = run_in_child("child: the second fill breaks device 1");
  INFO(child.output);
  CHECK(child.exit_status == 0);
  CHECK_THAT(child.output, Catch::Contains("fault on request: sticky@1:2: the device has error 719"));
}

TEST_CASE("child: print whether device 0 can allocate", "[.]") {
  void* pointer = nullptr;
  WARN("error " << cudaMalloc(&pointer, 100));
}
TEST_CASE("FANOUT_SIM_FAULTS names devices of the machine, whatever CUDA_VISIBLE_DEVICES shows") {
  const auto error = [](const char* visible) {
    return run_in_child("child: print whether device 0 can allocate",
                        {{"FANOUT_SIM_FAULTS", "alloc@2:1"}, {"CUDA_VISIBLE_DEVICES", visible}})
        .output;
  };
  CHECK_THAT(error("2,0"), Catch::Contains("error 2\n"));
  CHECK_THAT(error("0,2"), Catch::Contains("error 0\n"));
}

TEST_CASE("child: inject a fault that is not known", "[.]") {
  sim::inject_faults("alloc@1:3,melt@0");
}
TEST_CASE("a list of faults that is not understood stops the program and says what is allowed") {
  const ChildResult child = run_in_child("child: inject a fault that is not known");
  CHECK(child.signal == SIGABRT);
  CHECK_THAT(child.output, Catch::Contains("inject_faults(\"alloc@1:3,melt@0\"): allowed: a list of KIND@WHERE"));
}
