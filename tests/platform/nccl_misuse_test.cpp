// SPDX-License-Identifier: Apache-2.0
// What real GPUs would hang on or corrupt memory with, and the simulated NCCL reports: for the simulated platform.
#include <cuda_bf16.h>
#include <nccl.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/platform/nccl_ranks.h"

namespace {

using fanout::tests::CurrentDevice;
using fanout::tests::DeviceArray;
using fanout::tests::Ranks;

std::string last_error() {
  return ncclGetLastError(nullptr);
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A short time limit for the ranks that never come.
class TimeLimit {
 public:
  TimeLimit() { setenv("FANOUT_SIM_NCCL_TIMEOUT", "0.2", 1); }
  ~TimeLimit() { unsetenv("FANOUT_SIM_NCCL_TIMEOUT"); }
};

}  // namespace

TEST_CASE("ranks that disagree on count, type, operation, root or call get a report of every rank's call") {
  const std::vector<DeviceArray<float>> x = [] {
    std::vector<DeviceArray<float>> arrays;
    for (int r = 0; r < 2; ++r) arrays.emplace_back(std::vector<float>(8, 1), r);
    return arrays;
  }();
  const auto check = [&](auto&& call, const std::string& first, const std::string& second) {
    Ranks ranks(2);
    CHECK(ranks.in_a_group([&](int r) { call(r, ranks.comm(r), ranks.stream(r)); }) == ncclInvalidUsage);
    CHECK(mentions(last_error(), "rank 0 on cuda:0: " + first));
    CHECK(mentions(last_error(), "rank 1 on cuda:1: " + second));
    ncclResult_t state = ncclSuccess;
    CHECK(ncclCommGetAsyncError(ranks.comm(1), &state) == ncclSuccess);
    CHECK(state == ncclInvalidUsage);
    ranks.abort();
    for (const auto& array : x) CHECK(array.read() == std::vector<float>(8, 1));
  };
  const auto reduce = [&](int r, int count, ncclDataType_t type, ncclRedOp_t operation, int root, auto comm, auto s) {
    ncclReduce(x[r].data(), x[r].data(), count, type, operation, root, comm, s);
  };
  check([&](int r, auto comm, auto s) { reduce(r, r == 0 ? 5 : 4, ncclFloat, ncclSum, 0, comm, s); },
        "Reduce of 5 float32, sum, root 0", "Reduce of 4 float32, sum, root 0");
  check([&](int r, auto comm, auto s) { reduce(r, 4, r == 0 ? ncclFloat : ncclInt32, ncclSum, 0, comm, s); },
        "Reduce of 4 float32", "Reduce of 4 int32");
  check([&](int r, auto comm, auto s) { reduce(r, 4, ncclFloat, r == 0 ? ncclSum : ncclMax, 0, comm, s); },
        "Reduce of 4 float32, sum", "Reduce of 4 float32, max");
  check([&](int r, auto comm, auto s) { reduce(r, 4, ncclFloat, ncclSum, r, comm, s); },
        "Reduce of 4 float32, sum, root 0", "Reduce of 4 float32, sum, root 1");
  check(
      [&](int r, auto comm, auto s) {
        if (r == 0) reduce(r, 4, ncclFloat, ncclSum, 0, comm, s);
        if (r == 1) ncclAllReduce(x[1].data(), x[1].data(), 4, ncclFloat, ncclSum, comm, s);
      },
      "Reduce of 4 float32", "AllReduce of 4 float32");
}

TEST_CASE("one thread that drives two ranks without a group is told so instead of hanging") {
  const TimeLimit limit;
  Ranks ranks(2);
  const DeviceArray<float> x({1, 2}, 0);
  CHECK(ncclAllReduce(x.data(), x.data(), 2, ncclFloat, ncclSum, ranks.comm(0), ranks.stream(0)) == ncclInternalError);
  CHECK(mentions(last_error(), "rank 0 on cuda:0: AllReduce of 2 float32, sum"));
  CHECK(mentions(last_error(), "rank 1 on cuda:1: no call"));
  CHECK(mentions(last_error(), "ncclGroupStart"));
  CHECK(ncclAllReduce(x.data(), x.data(), 2, ncclFloat, ncclSum, ranks.comm(1), ranks.stream(1)) == ncclInternalError);
  ranks.abort();
}

TEST_CASE("a rank that never joins is named") {
  const TimeLimit limit;
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRank(&comm, 2, id, 0) == ncclInternalError);
  CHECK(comm == nullptr);
  CHECK(mentions(last_error(), "rank 1 has not joined"));
}

TEST_CASE("an id serves one communicator, one rank once, and one number of ranks") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comm = nullptr, other = nullptr;
  REQUIRE(ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess);
  CHECK(ncclCommInitRank(&other, 1, id, 0) == ncclSystemError);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
  std::memset(&id, 0, sizeof id);
  CHECK(ncclCommInitRank(&other, 1, id, 0) == ncclSystemError);

  ncclComm_t comms[2] = {};
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclGroupStart();
  for (int i = 0; i < 2; ++i) ncclCommInitRank(&comms[i], 2, id, 0);
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclGroupStart();
  for (int i = 0; i < 2; ++i) ncclCommInitRank(&comms[i], 2 + i, id, i);
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
}

TEST_CASE("an aborted or destroyed communicator is refused afterwards") {
  ncclComm_t comm = nullptr;
  const DeviceArray<float> x({1});
  REQUIRE(ncclCommInitAll(&comm, 1, nullptr) == ncclSuccess);
  REQUIRE(ncclCommAbort(comm) == ncclSuccess);
  CHECK(ncclAllReduce(x.data(), x.data(), 1, ncclFloat, ncclSum, comm, nullptr) == ncclInvalidArgument);
  CHECK(ncclCommAbort(comm) == ncclInvalidArgument);
  REQUIRE(ncclCommInitAll(&comm, 1, nullptr) == ncclSuccess);
  REQUIRE(ncclCommDestroy(comm) == ncclSuccess);
  CHECK(ncclCommDestroy(comm) == ncclInvalidArgument);
}

TEST_CASE("an abort frees a thread that waits for the rank, and ends the communicator for all") {
  ncclComm_t comms[2] = {};
  REQUIRE(ncclCommInitAll(comms, 2, nullptr) == ncclSuccess);
  const DeviceArray<float> x({1}, 1);
  ncclResult_t waiting = ncclSuccess;
  std::thread waiter([&] { waiting = ncclAllReduce(x.data(), x.data(), 1, ncclFloat, ncclSum, comms[1], nullptr); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(ncclCommAbort(comms[0]) == ncclSuccess);
  waiter.join();
  CHECK(waiting == ncclRemoteError);
  CHECK(ncclCommAbort(comms[1]) == ncclSuccess);
}

TEST_CASE("a call that needs a rank which was destroyed fails at once") {
  ncclComm_t comms[2] = {};
  REQUIRE(ncclCommInitAll(comms, 2, nullptr) == ncclSuccess);
  const DeviceArray<float> x({1}, 1);
  REQUIRE(ncclCommDestroy(comms[0]) == ncclSuccess);
  CHECK(ncclAllReduce(x.data(), x.data(), 1, ncclFloat, ncclSum, comms[1], nullptr) == ncclInvalidUsage);
  CHECK(mentions(last_error(), "rank 0 on cuda:0: destroyed its communicator"));
  CHECK(ncclCommAbort(comms[1]) == ncclSuccess);
}

TEST_CASE("a stream of another device, a NULL buffer and overlapping buffers end the communicator with a report") {
  const std::vector<float> ones(8, 1);
  const DeviceArray<float> x(ones, 0), y(ones, 1);
  const auto check = [&](auto&& call, const std::string& report) {
    Ranks ranks(2);
    CHECK(ranks.in_a_group([&](int r) { call(r, ranks); }) == ncclUnhandledCudaError);
    CHECK(mentions(last_error(), report));
    ranks.abort();
  };
  check(
      [&](int r, const Ranks& ranks) {
        float* data = r == 0 ? x.data() : y.data();
        ncclAllReduce(data, data, 4, ncclFloat, ncclSum, ranks.comm(r), ranks.stream(0));
      },
      "rank 1 is on device 1, but its stream is on device 0");
  check(
      [&](int r, const Ranks& ranks) {
        ncclReduce(r == 0 ? x.data() : y.data(), nullptr, 4, ncclFloat, ncclSum, 1, ranks.comm(r), ranks.stream(r));
      },
      "recvbuff is NULL");
  check(
      [&](int r, const Ranks& ranks) {
        float* data = r == 0 ? x.data() : y.data();
        ncclAllReduce(data, data + 1, 4, ncclFloat, ncclSum, ranks.comm(r), ranks.stream(r));
      },
      "overlap");
}

TEST_CASE("transfers whose ends differ, or that lack an end, are reported") {
  const DeviceArray<float> x({1, 2}, 0), y({3, 4}, 1);
  {
    Ranks ranks(2);
    CHECK(ranks.in_a_group([&](int r) {
      if (r == 0) ncclSend(x.data(), 2, ncclFloat, 1, ranks.comm(0), ranks.stream(0));
      if (r == 1) ncclRecv(y.data(), 1, ncclFloat, 0, ranks.comm(1), ranks.stream(1));
    }) == ncclInvalidUsage);
    CHECK(mentions(last_error(), "Send of 2 float32 to rank 1"));
    ranks.abort();
  }
  Ranks ranks(2);
  CHECK(ncclSend(x.data(), 1, ncclFloat, 0, ranks.comm(0), ranks.stream(0)) == ncclInvalidUsage);
  ranks.abort();
}

TEST_CASE("bf16 is rounded after every rank, in the order of ranks") {
  const Ranks ranks(4);
  std::vector<DeviceArray<__nv_bfloat16>> x;
  for (int r = 0; r < 4; ++r)
    x.emplace_back(std::vector<__nv_bfloat16>{r == 0 ? 256.0f : 1.0f, r == 3 ? 256.0f : 1.0f}, r);
  CHECK(ranks.in_a_group([&](int r) {
    ncclAllReduce(x[r].data(), x[r].data(), 2, ncclBfloat16, ncclSum, ranks.comm(r), ranks.stream(r));
  }) == ncclSuccess);
  const auto sums = x[2].read();
  CHECK(float(sums[0]) == 256);  // 256 + 1 is 256, three times
  CHECK(float(sums[1]) == 260);  // 3 + 256 lies between 258 and 260
}

TEST_CASE("reductions of half floats are refused in words, and moving them works") {
  const Ranks ranks(2);
  std::vector<DeviceArray<std::uint16_t>> x;
  for (int r = 0; r < 2; ++r) x.emplace_back(std::vector<std::uint16_t>(3, std::uint16_t(r + 1)), r);
  CHECK(ranks.in_a_group([&](int r) {
    ncclAllReduce(x[r].data(), x[r].data(), 3, ncclFloat16, ncclSum, ranks.comm(r), ranks.stream(r));
  }) == ncclInvalidArgument);
  CHECK(mentions(last_error(), "not simulated yet"));
  CHECK(ranks.in_a_group([&](int r) { ncclBcast(x[r].data(), 3, ncclFloat16, 1, ranks.comm(r), ranks.stream(r)); }) ==
        ncclSuccess);
  CHECK(x[0].read() == std::vector<std::uint16_t>(3, 2));
}

TEST_CASE("creating communicators and communicating do not mix in a group") {
  Ranks ranks(2);
  const DeviceArray<float> x({1}, 0);
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comm = nullptr;
  ncclGroupStart();
  ncclCommInitRank(&comm, 1, id, 0);
  ncclAllReduce(x.data(), x.data(), 1, ncclFloat, ncclSum, ranks.comm(0), ranks.stream(0));
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  CHECK(comm == nullptr);
}
