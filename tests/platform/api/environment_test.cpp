// SPDX-License-Identifier: Apache-2.0
// The simulated platform only: its environment variables, and misuse that CUDA leaves undefined.
#include <csignal>

#include "tests/platform/api/child_process.h"
#include "tests/platform/api/cuda_check.h"

using namespace fanout::test;

namespace {

void require_stop(const char* test_case, const std::vector<std::string>& texts) {
  const ChildResult child = run_in_child(test_case);
  INFO(child.output);
  REQUIRE(child.signal == SIGABRT);
  for (const std::string& text : texts) REQUIRE_THAT(child.output, Catch::Contains(text));
}

}  // namespace

TEST_CASE("child: the first call is 3", "[.]") {
  int count = 77;
  REQUIRE(cudaGetDeviceCount(&count) == cudaErrorInitializationError);
  REQUIRE(count == 77);
  REQUIRE(cudaFree(nullptr) == cudaErrorInitializationError);
}

TEST_CASE("a malformed FANOUT_SIM variable is reported with its value and what is allowed, and no call works") {
  const auto [name, value] = GENERATE(table<const char*, const char*>(
      {{"FANOUT_SIM_DEVICES", "17"},        {"FANOUT_SIM_DEVICES", "four"},    {"FANOUT_SIM_DEVICES", "-1"},
       {"FANOUT_SIM_DEVICES", ""},          {"FANOUT_SIM_MEMORY", "0"},        {"FANOUT_SIM_MEMORY", "1GB"},
       {"FANOUT_SIM_MEMORY", "1000G"},      {"FANOUT_SIM_MEMORY", "1G,"},      {"FANOUT_SIM_MEMORY", "1G,,1G,1G"},
       {"FANOUT_SIM_MEMORY", "1G,2G"},      {"FANOUT_SIM_POISON", "banana"},   {"FANOUT_SIM_LEAKS", "banana"},
       {"FANOUT_SIM_RACES", "banana"},      {"FANOUT_SIM_MODE", "lazy"},       {"FANOUT_SIM_LANES", "wide"},
       {"FANOUT_SIM_NCCL_TIMEOUT", "soon"}, {"FANOUT_SIM_NCCL_TIMEOUT", "0"},  {"FANOUT_SIM_NO_PEER", "0:1"},
       {"FANOUT_SIM_FAULTS", "alloc"},      {"FANOUT_SIM_FAULTS", "alloc@16"}, {"FANOUT_SIM_FAULTS", "alloc@1:0"},
       {"FANOUT_SIM_FAULTS", "down@1"},     {"FANOUT_SIM_FAULTS", "down@1-1"}, {"FANOUT_SIM_FAULTS", "launch@host"},
       {"FANOUT_SIM_FAULTS", "copy@0,"}}));
  const ChildResult child = run_in_child("child: the first call is 3", {{name, value}});
  INFO(child.output);
  REQUIRE(child.exit_status == 0);
  REQUIRE_THAT(child.output, Catch::Contains(std::string(name) + " is '" + value + "'; allowed: "));
}

TEST_CASE("child: print the device count", "[.]") {
  int count = 0;
  REQUIRE_OK(cudaGetDeviceCount(&count));
  WARN("devices: " << count);
}
TEST_CASE("FANOUT_SIM_DEVICES sets the number of devices") {
  for (const char* devices : {"1", "16"})
    REQUIRE_THAT(run_in_child("child: print the device count", {{"FANOUT_SIM_DEVICES", devices}}).output,
                 Catch::Contains(std::string("devices: ") + devices + "\n"));
}

TEST_CASE("child: allocate up to 64 MiB", "[.]") {
  std::size_t free_bytes = 0, total = 0;
  REQUIRE_OK(cudaMemGetInfo(&free_bytes, &total));
  REQUIRE(total == 64 << 20);
  void* pointer = nullptr;
  REQUIRE(cudaMalloc(&pointer, (64 << 20) + 1) == cudaErrorMemoryAllocation);
  REQUIRE_OK(cudaMalloc(&pointer, 60 << 20));
  void* more = nullptr;
  REQUIRE(cudaMallocAsync(&more, 8 << 20, nullptr) == cudaErrorMemoryAllocation);
  REQUIRE_OK(cudaFree(pointer));
  // Unused pool memory makes room for other sizes.
  for (std::size_t mebibytes : {40, 50, 20, 45}) {
    REQUIRE_OK(cudaMallocAsync(&more, mebibytes << 20, nullptr));
    REQUIRE_OK(cudaFreeAsync(more, nullptr));
  }
  REQUIRE_OK(cudaMalloc(&pointer, 64 << 20));
}
TEST_CASE("FANOUT_SIM_MEMORY is the memory of each device") {
  const ChildResult child = run_in_child("child: allocate up to 64 MiB", {{"FANOUT_SIM_MEMORY", "64M"}});
  INFO(child.output);
  REQUIRE(child.exit_status == 0);
}

TEST_CASE("child: print the memory of each device", "[.]") {
  std::string sizes;
  int count = 0;
  REQUIRE_OK(cudaGetDeviceCount(&count));
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties;
    REQUIRE_OK(cudaGetDeviceProperties(&properties, device));
    sizes += " " + std::to_string(properties.totalGlobalMem >> 20);
  }
  WARN("MiB:" << sizes);
}
TEST_CASE("FANOUT_SIM_MEMORY takes one value a device of the machine, in the machine's order") {
  const char* const memory = "1G,512M,2048K,4g";
  const auto sizes = [&](const char* value, const char* visible) {
    return run_in_child("child: print the memory of each device",
                        {{"FANOUT_SIM_MEMORY", value}, {"CUDA_VISIBLE_DEVICES", visible}})
        .output;
  };
  CHECK_THAT(sizes(memory, nullptr), Catch::Contains("MiB: 1024 512 2 4096\n"));
  CHECK_THAT(sizes(memory, "3,1"), Catch::Contains("MiB: 4096 512\n"));
  CHECK_THAT(sizes("64M", nullptr), Catch::Contains("MiB: 64 64 64 64\n"));
}
TEST_CASE("a list in FANOUT_SIM_MEMORY with the wrong number of values says how many there must be") {
  const ChildResult child = run_in_child("child: the first call is 3", {{"FANOUT_SIM_MEMORY", "1G,2G"}});
  CHECK(child.exit_status == 0);
  CHECK_THAT(child.output, Catch::Contains("one value, or one for each of the 4 devices (FANOUT_SIM_DEVICES), not 2"));
}

TEST_CASE("child: free 60 pieces in two passes", "[.]") {
  for (int round = 0; round < 3; ++round) {
    std::vector<void*> pieces(60);
    for (auto& pointer : pieces) REQUIRE_OK(cudaMalloc(&pointer, 1 << 20));
    for (std::size_t i = 0; i < pieces.size(); i += 2) REQUIRE_OK(cudaFree(pieces[i]));
    for (std::size_t i = 1; i < pieces.size(); i += 2) REQUIRE_OK(cudaFree(pieces[i]));
    void* whole = nullptr;
    REQUIRE_OK(cudaMalloc(&whole, 64 << 20));
    REQUIRE(whole == pieces[0]);  // all ranges have joined again
    REQUIRE_OK(cudaFree(whole));
  }
}
TEST_CASE("memory comes back after frees in any order, so that a block of all of it fits") {
  const ChildResult child = run_in_child("child: free 60 pieces in two passes",
                                         {{"FANOUT_SIM_MEMORY", "64M"}, {"FANOUT_SIM_PROTECT", nullptr}});
  INFO(child.output);
  REQUIRE(child.exit_status == 0);
}

TEST_CASE("child: memory is NaN when allocated and when used again", "[.]") {
  for (int round = 0; round < 2; ++round) {
    unsigned* pointer = nullptr;
    std::vector<unsigned> back(300);
    REQUIRE_OK(cudaMallocAsync(&pointer, 1200, nullptr));
    REQUIRE_OK(cudaMemcpy(back.data(), pointer, 1200, cudaMemcpyDeviceToHost));
    REQUIRE(back == std::vector<unsigned>(300, 0xFFFFFFFF));
    REQUIRE_OK(cudaMemset(pointer, 0, 1200));
    REQUIRE_OK(cudaFreeAsync(pointer, nullptr));
  }
}
TEST_CASE("FANOUT_SIM_POISON=1 fills memory with NaN at every allocation") {
  const ChildResult child =
      run_in_child("child: memory is NaN when allocated and when used again", {{"FANOUT_SIM_POISON", "1"}});
  INFO(child.output);
  REQUIRE(child.exit_status == 0);
}

TEST_CASE("child: is memory filled when it is used again", "[.]") {
  unsigned *pointer = nullptr, first = 0;
  REQUIRE_OK(cudaMallocAsync(&pointer, 4, nullptr));
  REQUIRE_OK(cudaMemset(pointer, 0, 4));
  REQUIRE_OK(cudaFreeAsync(pointer, nullptr));
  REQUIRE_OK(cudaMallocAsync(&pointer, 4, nullptr));
  REQUIRE_OK(cudaMemcpy(&first, pointer, 4, cudaMemcpyDeviceToHost));
  WARN("filled: " << (first == 0xFFFFFFFF));
}
TEST_CASE("a switch is off with 0, false, off, no and on with 1, true, on, yes, in any case, and unset if empty",
          "[case 80]") {
  const auto filled_with = [](const char* value) {
    const Environment environment{{"FANOUT_SIM_POISON", value}, {"FANOUT_SIM_PROTECT", nullptr}};
    return run_in_child("child: is memory filled when it is used again", environment).output;
  };
  for (const char* value : {"1", "true", "on", "yes", "TRUE", "On"})
    CHECK_THAT(filled_with(value), Catch::Contains("filled: 1"));
  for (const char* value : {"0", "false", "off", "no", "False", "NO", ""})
    CHECK_THAT(filled_with(value), Catch::Contains("filled: 0"));
}

TEST_CASE("child: which pairs can be peers", "[.]") {
  int can[2] = {-1, -1};
  REQUIRE_OK(cudaDeviceCanAccessPeer(&can[0], 1, 0));
  REQUIRE_OK(cudaDeviceCanAccessPeer(&can[1], 2, 0));
  WARN("peers: " << can[0] << can[1]);
}
TEST_CASE("FANOUT_SIM_NO_PEER takes peer access from pairs or from all") {
  const auto peers = [](const char* value) {
    return run_in_child("child: which pairs can be peers", {{"FANOUT_SIM_NO_PEER", value}}).output;
  };
  REQUIRE_THAT(peers(nullptr), Catch::Contains("peers: 11"));
  REQUIRE_THAT(peers("0-1,2-3"), Catch::Contains("peers: 01"));
  REQUIRE_THAT(peers("all"), Catch::Contains("peers: 00"));
}

TEST_CASE("child: use a destroyed stream", "[.]") {
  cudaStream_t stream = nullptr;
  REQUIRE_OK(cudaStreamCreate(&stream));
  REQUIRE_OK(cudaStreamDestroy(stream));
  (void)cudaStreamSynchronize(stream);
}
TEST_CASE("child: destroy an event twice", "[.]") {
  cudaEvent_t event = nullptr;
  REQUIRE_OK(cudaEventCreate(&event));
  REQUIRE_OK(cudaEventDestroy(event));
  (void)cudaEventDestroy(event);
}
TEST_CASE("child: copy with a kind that does not fit", "[.]") {
  Malloced<int> block(2);
  (void)cudaMemcpy(block.pointer, block.pointer + 1, 4, cudaMemcpyHostToDevice);
}
TEST_CASE("child: copy between overlapping areas", "[.]") {
  Malloced<int> block(4);
  (void)cudaMemcpy(block.pointer, block.pointer + 1, 8, cudaMemcpyDeviceToDevice);
}
TEST_CASE("child: peer copy with the wrong owner", "[.]") {
  Malloced<int> block(4);
  (void)cudaMemcpyPeer(block.pointer, 1, block.pointer + 2, 0, 8);
}
TEST_CASE("child: copy pool memory with another device current", "[.]") {
  TestStream queue;
  int *pointer = nullptr, host = 0;
  REQUIRE_OK(cudaMallocAsync(&pointer, 4, queue.stream));
  OnDevice one(1);
  (void)cudaMemcpyAsync(&host, pointer, 4, cudaMemcpyDeviceToHost, queue.stream);
}

TEST_CASE("what CUDA leaves undefined stops with a report that names call, device, stream and pointer") {
  require_stop("child: use a destroyed stream", {"cudaStreamSynchronize", "cuda:0", "was destroyed before"});
  require_stop("child: destroy an event twice", {"cudaEventDestroy", "was destroyed before"});
  require_stop("child: copy with a kind that does not fit", {"cudaMemcpy(", "cuda:0", "cudaMemcpyHostToDevice"});
  require_stop("child: copy between overlapping areas", {"cudaMemcpy(", "the areas overlap"});
  require_stop("child: peer copy with the wrong owner", {"cudaMemcpyPeer", "is not memory of cuda:1"});
  require_stop("child: copy pool memory with another device current", {"cudaMemcpyAsync", "cudaMemcpyPeerAsync"});
}

TEST_CASE("the end of an allocation is exact to the byte") {
  Malloced<char> block(100);
  std::vector<char> host(200);
  REQUIRE_OK(cudaMemcpy(block.pointer + 60, host.data(), 40, cudaMemcpyHostToDevice));
  REQUIRE(cudaMemcpy(block.pointer + 60, host.data(), 41, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  REQUIRE(cudaMemset(block.pointer, 0, 101) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST_CASE("a handle that never was one is 400") {
  int not_a_handle = 0;
  const auto stream = reinterpret_cast<cudaStream_t>(&not_a_handle);
  void* pointer = nullptr;
  REQUIRE(cudaStreamQuery(stream) == cudaErrorInvalidResourceHandle);
  REQUIRE(cudaMallocAsync(&pointer, 16, stream) == cudaErrorInvalidResourceHandle);
  REQUIRE(cudaEventQuery(reinterpret_cast<cudaEvent_t>(&not_a_handle)) == cudaErrorInvalidResourceHandle);
  (void)cudaGetLastError();
}
