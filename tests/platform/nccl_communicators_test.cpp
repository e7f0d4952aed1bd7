// SPDX-License-Identifier: Apache-2.0
// NCCL communicators: making, asking, ending; groups and the order of the checks.
#include <nccl.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/platform/nccl_ranks.h"

namespace {

using fanout::tests::CurrentDevice;
using fanout::tests::DeviceArray;
using fanout::tests::most_ranks;
using fanout::tests::Ranks;

ncclResult_t state_of(ncclComm_t comm) {
  ncclResult_t state = ncclInternalError;
  return ncclCommGetAsyncError(comm, &state) == ncclSuccess ? state : ncclInternalError;
}

/// Polls a non-blocking communicator until it is no longer in progress.
ncclResult_t settle(ncclComm_t comm) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (state_of(comm) == ncclInProgress && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return state_of(comm);
}

/// What `rank` does in a thread of its own, on its own device. The results, by rank.
template <class Work>
std::vector<ncclResult_t> on_threads(int ranks, Work&& work) {
  std::vector<ncclResult_t> results(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      cudaSetDevice(rank);
      results[rank] = work(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace

TEST_CASE("version, error texts and the last error are NCCL's") {
  int version = 0;
  REQUIRE(ncclGetVersion(&version) == ncclSuccess);
  CHECK(version >= 21800);
  CHECK(ncclGetVersion(nullptr) == ncclInvalidArgument);
  CHECK(ncclGetErrorString(ncclSuccess) == std::string("no error"));
  CHECK(ncclGetErrorString(ncclInvalidUsage) == std::string("invalid usage (run with NCCL_DEBUG=WARN for details)"));
  CHECK(ncclGetErrorString(static_cast<ncclResult_t>(77)) == std::string("unknown result code"));
  int count = -5;
  CHECK(ncclCommCount(nullptr, &count) == ncclInvalidArgument);
  CHECK(count == -5);
  CHECK(ncclGetLastError(nullptr) == std::string("CommCount : comm argument is NULL"));
}

TEST_CASE("ncclCommInitAll puts rank i on the i-th listed device and restores the current device") {
  const int size = most_ranks();
  std::vector<int> devices(size);
  for (int i = 0; i < size; ++i) devices[i] = size - 1 - i;
  std::vector<ncclComm_t> comms(size);
  REQUIRE(ncclCommInitAll(comms.data(), size, devices.data()) == ncclSuccess);
  for (int i = 0; i < size; ++i) {
    int count = 0, device = -1, rank = -1;
    REQUIRE(ncclCommCount(comms[i], &count) == ncclSuccess);
    REQUIRE(ncclCommCuDevice(comms[i], &device) == ncclSuccess);
    REQUIRE(ncclCommUserRank(comms[i], &rank) == ncclSuccess);
    CHECK(count == size);
    CHECK(device == devices[i]);
    CHECK(rank == i);
    CHECK(state_of(comms[i]) == ncclSuccess);
  }
  int current = -1;
  cudaGetDevice(&current);
  CHECK(current == 0);
  for (const ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("ncclCommInitAll refuses NULL, negative counts, unknown and repeated devices") {
  ncclComm_t comms[2] = {};
  const int unknown[] = {0, 999}, negative[] = {-1}, twice[] = {0, 0};
  CHECK(ncclCommInitAll(nullptr, 2, nullptr) == ncclInvalidArgument);
  CHECK(ncclCommInitAll(comms, -1, nullptr) == ncclInvalidArgument);
  CHECK(ncclCommInitAll(comms, 2, unknown) == ncclInvalidArgument);
  CHECK(ncclCommInitAll(comms, 1, negative) == ncclInvalidArgument);
  CHECK(ncclCommInitAll(comms, 2, twice) == ncclInvalidUsage);
}

TEST_CASE("ncclCommInitRank refuses NULL and ranks outside, and leaves the handle alone") {
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(nullptr) == ncclInvalidArgument);
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRank(nullptr, 1, id, 0) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(&comm, 0, id, 0) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(&comm, 2, id, 2) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(&comm, 2, id, -1) == ncclInvalidArgument);
  CHECK(comm == nullptr);
}

TEST_CASE("a configuration needs its initializer, and blocking must be 0 or 1") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comm = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 2;
  CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclInvalidArgument);
  config = NCCL_CONFIG_INITIALIZER;
  config.minCTAs = 4;
  config.maxCTAs = 2;
  CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclInvalidArgument);
  config = NCCL_CONFIG_INITIALIZER;
  config.magic = 0;
  CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclInvalidArgument);
  config = NCCL_CONFIG_INITIALIZER;
  REQUIRE(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclSuccess);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("two ranks on one device fail on every rank, after they met") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comms[2] = {};
  ncclGroupStart();
  for (int rank = 0; rank < 2; ++rank) CHECK(ncclCommInitRank(&comms[rank], 2, id, rank) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  CHECK(comms[0] == nullptr);
  CHECK(comms[1] == nullptr);
}

TEST_CASE("a thread per rank makes a communicator and reduces without a group") {
  const int size = most_ranks();
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  std::vector<DeviceArray<float>> x;
  for (int rank = 0; rank < size; ++rank) x.emplace_back(std::vector<float>(3000, float(rank + 1)), rank);
  const auto results = on_threads(size, [&](int rank) -> ncclResult_t {
    ncclComm_t comm = nullptr;
    if (const auto error = ncclCommInitRank(&comm, size, id, rank); error != ncclSuccess) return error;
    cudaStream_t stream = nullptr;
    if (cudaStreamCreate(&stream) != cudaSuccess) return ncclUnhandledCudaError;
    for (int step = 0; step < 50; ++step) {
      const auto error = ncclAllReduce(x[rank].data(), x[rank].data(), 3000, ncclFloat, ncclMax, comm, stream);
      if (error != ncclSuccess) return error;
      if (cudaStreamSynchronize(stream) != cudaSuccess) return ncclUnhandledCudaError;
    }
    cudaStreamDestroy(stream);
    return ncclCommDestroy(comm);
  });
  CHECK(results == std::vector<ncclResult_t>(size, ncclSuccess));
  for (int rank = 0; rank < size; ++rank) CHECK(x[rank].read() == std::vector<float>(3000, float(size)));
}

TEST_CASE("a non-blocking communicator is in progress until it is polled, and refuses calls before") {
  const int size = most_ranks();
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  std::vector<ncclComm_t> comms(size);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclGroupStart();
  for (int rank = 0; rank < size; ++rank) {
    const CurrentDevice current(rank);
    const auto result = ncclCommInitRankConfig(&comms[rank], size, id, rank, &config);
    CHECK((result == ncclSuccess || result == ncclInProgress));
  }
  const auto result = ncclGroupEnd();
  CHECK((result == ncclSuccess || result == ncclInProgress));
  for (const ncclComm_t comm : comms) CHECK(settle(comm) == ncclSuccess);

  std::vector<DeviceArray<int>> x;
  for (int rank = 0; rank < size; ++rank) x.emplace_back(std::vector<int>{rank, 1}, rank);
  ncclGroupStart();
  for (int rank = 0; rank < size; ++rank) {
    ncclAllReduce(x[rank].data(), x[rank].data(), 2, ncclInt, ncclSum, comms[rank], nullptr);
  }
  const auto reduced = ncclGroupEnd();
  CHECK((reduced == ncclSuccess || reduced == ncclInProgress));
  for (const ncclComm_t comm : comms) CHECK(settle(comm) == ncclSuccess);
  for (int rank = 0; rank < size; ++rank) CHECK(x[rank].read() == std::vector<int>{size * (size - 1) / 2, size});
  for (const ncclComm_t comm : comms) CHECK(ncclCommAbort(comm) == ncclSuccess);
}

TEST_CASE("a non-blocking rank whose peers never come stays in progress and can be aborted") {
  if (most_ranks() < 2) return;
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInProgress);
  REQUIRE(comm != nullptr);
  CHECK(state_of(comm) == ncclInProgress);
  int count = -1;
  CHECK(ncclCommCount(comm, &count) == ncclInvalidArgument);
  CHECK(ncclCommAbort(comm) == ncclSuccess);
}

TEST_CASE("arguments are checked in NCCL's order, and a refused call leaves the communicator good") {
  const Ranks ranks(1);
  const DeviceArray<float> x({1});
  const auto reduce = [&](int type, int operation, int root, ncclComm_t comm) {
    return ncclReduce(x.data(), x.data(), 1, static_cast<ncclDataType_t>(type), static_cast<ncclRedOp_t>(operation),
                      root, comm, nullptr);
  };
  CHECK(reduce(99, 99, 99, nullptr) == ncclInvalidArgument);
  CHECK(ncclGetLastError(nullptr) == std::string("Reduce : comm argument is NULL"));
  CHECK(reduce(99, 99, 1, ranks.comm(0)) == ncclInvalidArgument);
  CHECK(std::strstr(ncclGetLastError(nullptr), "invalid root 1") != nullptr);
  CHECK(reduce(99, 99, 0, ranks.comm(0)) == ncclInvalidArgument);
  CHECK(std::strstr(ncclGetLastError(nullptr), "invalid type 99") != nullptr);
  CHECK(reduce(ncclFloat, 99, 0, ranks.comm(0)) == ncclInvalidArgument);
  CHECK(std::strstr(ncclGetLastError(nullptr), "invalid reduction operation 99") != nullptr);
  CHECK(ncclSend(x.data(), 1, ncclFloat, 1, ranks.comm(0), nullptr) == ncclInvalidArgument);
  CHECK(reduce(ncclFloat, ncclSum, 0, ranks.comm(0)) == ncclSuccess);
}

TEST_CASE("groups nest, belong to a thread, and an End without Start is invalid usage") {
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  const Ranks ranks(most_ranks());
  std::vector<DeviceArray<float>> x;
  for (int r = 0; r < ranks.size(); ++r) x.emplace_back(std::vector<float>{1}, r);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  ncclResult_t of_other_thread = ncclSuccess;
  std::thread([&] { of_other_thread = ncclGroupEnd(); }).join();
  CHECK(of_other_thread == ncclInvalidUsage);
  for (int r = 0; r < ranks.size(); ++r) {
    REQUIRE(ncclGroupStart() == ncclSuccess);
    ncclAllReduce(x[r].data(), x[r].data(), 1, ncclFloat, ncclSum, ranks.comm(r), ranks.stream(r));
    REQUIRE(ncclGroupEnd() == ncclSuccess);
  }
  if (ranks.size() > 1) CHECK(x[0].read() == std::vector<float>{1});  // not before the outermost End
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  CHECK(x[0].read() == std::vector<float>{float(ranks.size())});
}

TEST_CASE("the outermost End repeats an error of its group, runs nothing of it, and the next group is clean") {
  const Ranks ranks(most_ranks());
  std::vector<DeviceArray<float>> x;
  for (int r = 0; r < ranks.size(); ++r) x.emplace_back(std::vector<float>{1}, r);
  const auto reduce = [&](int r) {
    return ncclAllReduce(x[r].data(), x[r].data(), 1, ncclFloat, ncclProd, ranks.comm(r), ranks.stream(r));
  };
  const auto broadcast_from = [&](int root, int r) {
    return ncclBcast(x[r].data(), 1, ncclFloat, root, ranks.comm(r), ranks.stream(r));
  };
  if (ranks.size() > 1) x[0].write({5});
  CHECK(ranks.in_a_group([&](int r) {
    CHECK(reduce(r) == ncclSuccess);
    CHECK(broadcast_from(99, r) == ncclInvalidArgument);
  }) == ncclInvalidArgument);
  if (ranks.size() > 1) CHECK(x[1].read() == std::vector<float>{1});
  CHECK(ranks.in_a_group([&](int r) { broadcast_from(0, r); }) == ncclSuccess);
  CHECK(x[ranks.size() - 1].read() == x[0].read());
}

TEST_CASE("finalize, destroy and abort take NULL, a second finalize is refused") {
  CHECK(ncclCommFinalize(nullptr) == ncclSuccess);
  CHECK(ncclCommDestroy(nullptr) == ncclSuccess);
  CHECK(ncclCommAbort(nullptr) == ncclSuccess);
  ncclResult_t state;
  CHECK(ncclCommGetAsyncError(nullptr, &state) == ncclInvalidArgument);
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommInitAll(&comm, 1, nullptr) == ncclSuccess);
  CHECK(ncclCommFinalize(comm) == ncclSuccess);
  CHECK(ncclCommFinalize(comm) == ncclInvalidArgument);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("ncclMemAlloc gives memory of the current device") {
  void* memory = nullptr;
  CHECK(ncclMemAlloc(nullptr, 8) == ncclUnhandledCudaError);
  REQUIRE(ncclMemAlloc(&memory, 1024) == ncclSuccess);
  CHECK(cudaMemset(memory, 0, 1024) == cudaSuccess);
  CHECK(ncclMemFree(memory) == ncclSuccess);
}
