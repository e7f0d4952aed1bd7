// SPDX-License-Identifier: Apache-2.0
// What real ranks would hang on, or corrupt memory with.
#include <cstdlib>
#include <thread>
#include <tuple>

#include "tests/platform/bugs/bug.h"
#include "tests/platform/bugs/lab.h"

using namespace fanout::test;

namespace {

// A small time limit for ranks that never come.
void hurry() {
  setenv("FANOUT_SIM_NCCL_TIMEOUT", "0.3", 1);
}

// Two ranks that each call something in one group.
struct Ranks {
  template <class Call>
  void in_a_group(Call call) {
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (int r = 0; r < 2; ++r) call(r, pair.ranks[r], labs[r]);
    result = ncclGroupEnd();
  }
  Lab labs[2] = {Lab(0), Lab(1)};
  Pair pair;
  ncclResult_t result = ncclSuccess;
};

}  // namespace

FANOUT_BUG(no_group, "NCCL: not all ranks made their call", "missing are rank 1 on cuda:1",
           "real GPUs would wait for ever", "between ncclGroupStart and ncclGroupEnd") {
  hurry();
  Ranks all;
  if (corrected) REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int r = 0; r < 2; ++r) {
    const auto& [a, b, stream] = std::tie(all.labs[r].a, all.labs[r].b, all.labs[r].first);
    (void)ncclAllReduce(a, b, kCount, ncclFloat, ncclSum, all.pair.ranks[r], stream);  // bug: no_group
    if (!corrected) break;
  }
  if (corrected) REQUIRE(ncclGroupEnd() == ncclSuccess);
}

FANOUT_BUG(counts_differ, "NCCL: the ranks do not agree; real GPUs would hang or corrupt memory:",
           "rank 0 on cuda:0: AllReduce of 256 float32, sum", "rank 1 on cuda:1: AllReduce of 255 float32, sum") {
  Ranks all;
  all.in_a_group([&](int r, ncclComm_t rank, const Lab& lab) {
    const int count = corrected ? kCount : kCount - r;
    (void)ncclAllReduce(lab.a, lab.b, count, ncclFloat, ncclSum, rank, lab.first);  // bug: counts_differ
  });
}

FANOUT_BUG(types_differ, "AllReduce of 256 float32, sum", "AllReduce of 256 int32, sum") {
  Ranks all;
  all.in_a_group([&](int r, ncclComm_t rank, const Lab& lab) {
    const ncclDataType_t type = corrected || r == 0 ? ncclFloat : ncclInt32;
    (void)ncclAllReduce(lab.a, lab.b, kCount, type, ncclSum, rank, lab.first);  // bug: types_differ
  });
}

FANOUT_BUG(operations_differ, "AllReduce of 256 float32, sum", "AllReduce of 256 float32, max") {
  Ranks all;
  all.in_a_group([&](int r, ncclComm_t rank, const Lab& lab) {
    const ncclRedOp_t operation = corrected || r == 0 ? ncclSum : ncclMax;
    (void)ncclAllReduce(lab.a, lab.b, kCount, ncclFloat, operation, rank, lab.first);  // bug: operations_differ
  });
}

FANOUT_BUG(roots_differ, "Broadcast of 256 float32, root 0", "Broadcast of 256 float32, root 1") {
  Ranks all;
  all.in_a_group([&](int r, ncclComm_t rank, const Lab& lab) {
    (void)ncclBroadcast(lab.a, lab.b, kCount, ncclFloat, corrected ? 0 : r, rank, lab.first);  // bug: roots_differ
  });
}

FANOUT_BUG(orders_differ, "rank 0 on cuda:0: AllReduce of 256", "rank 1 on cuda:1: Broadcast of 256") {
  Ranks all;
  const auto reduce = [&](ncclComm_t rank, const Lab& lab) {
    (void)ncclAllReduce(lab.a, lab.b, kCount, ncclFloat, ncclSum, rank, lab.first);  // bug: orders_differ
  };
  const auto broadcast = [&](ncclComm_t rank, const Lab& lab) {
    (void)ncclBroadcast(lab.a, lab.b, kCount, ncclFloat, 0, rank, lab.first);  // bug: orders_differ
  };
  all.in_a_group([&](int r, ncclComm_t rank, const Lab& lab) {
    const bool reduces_first = corrected || r == 0;
    if (reduces_first) reduce(rank, lab);
    broadcast(rank, lab);
    if (!reduces_first) reduce(rank, lab);
  });
}

FANOUT_BUG(device_named_twice, "NCCL: Duplicate GPU detected : the list of CommInitAll at",
           "names device 0 more than once") {
  const int devices[2] = {0, corrected ? 1 : 0};
  ncclComm_t ranks[2] = {};
  const ncclResult_t result = ncclCommInitAll(ranks, 2, devices);  // bug: device_named_twice
  if (result != ncclSuccess) return;
  for (const ncclComm_t rank : ranks) REQUIRE(ncclCommDestroy(rank) == ncclSuccess);
}

FANOUT_BUG(two_ranks_on_one_device, "NCCL: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 0") {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t ranks[2] = {};
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int r = 0; r < 2; ++r) {
    if (corrected) REQUIRE_OK(cudaSetDevice(r));
    (void)ncclCommInitRank(&ranks[r], 2, id, r);  // bug: two_ranks_on_one_device
  }
  if (ncclGroupEnd() != ncclSuccess) return;
  for (const ncclComm_t rank : ranks) REQUIRE(ncclCommDestroy(rank) == ncclSuccess);
}

FANOUT_BUG(used_after_abort, "AllReduce at", "the communicator was destroyed or aborted before (NCCL communicator of") {
  Ranks all;
  if (!corrected) REQUIRE(ncclCommAbort(all.pair.ranks[1]) == ncclSuccess);  // bug: used_after_abort
  all.in_a_group([&](int, ncclComm_t rank, const Lab& lab) {
    (void)ncclAllReduce(lab.a, lab.b, kCount, ncclFloat, ncclSum, rank, lab.first);  // bug: used_after_abort
  });
}

FANOUT_BUG(two_threads_on_one_communicator, "two threads", "rank 0") {
  Ranks all;
  const auto& [a, b, stream] = std::tie(all.labs[0].a, all.labs[0].b, all.labs[0].first);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  ncclComm_t rank = all.pair.ranks[0];
  (void)ncclSend(a, kCount, ncclFloat, 1, rank, stream);  // bug: two_threads_on_one_communicator
  const auto other = [&, a = a, stream = stream] {
    (void)ncclSend(a, kCount, ncclFloat, 1, rank, stream);  // bug: two_threads_on_one_communicator
  };
  if (corrected) {
    other();
  } else {
    std::thread(other).join();
  }
  for (int i = 0; i < 2; ++i) {
    (void)ncclRecv(all.labs[1].b, kCount, ncclFloat, 0, all.pair.ranks[1], all.labs[1].first);
  }
  (void)ncclGroupEnd();
}

FANOUT_BUG(rank_never_calls, "NCCL: not all ranks made their call", "rank 0 on cuda:0: Broadcast of 256",
           "rank 1 on cuda:1: no call") {
  hurry();
  Ranks all;
  all.in_a_group([&](int r, ncclComm_t rank, const Lab& lab) {
    if (!corrected && r == 1) return;
    (void)ncclBroadcast(lab.a, lab.b, kCount, ncclFloat, 0, rank, lab.first);  // bug: rank_never_calls
  });
}

FANOUT_BUG(rank_has_left, "NCCL: a rank has left, so the call of the others can never run",
           "rank 0 on cuda:0: destroyed its communicator") {
  Ranks all;
  if (!corrected) REQUIRE(ncclCommDestroy(std::exchange(all.pair.ranks[0], nullptr)) == ncclSuccess);
  all.in_a_group([&](int r, ncclComm_t rank, const Lab& lab) {
    if (!corrected && r == 0) return;
    (void)ncclAllReduce(lab.a, lab.b, kCount, ncclFloat, ncclSum, rank, lab.first);  // bug: rank_has_left
  });
}

FANOUT_BUG(rank_never_joins, "NCCL: not all ranks", "rank 1 has not joined") {
  hurry();
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t ranks[2] = {};
  const int count = corrected ? 1 : 2;
  const ncclResult_t result = ncclCommInitRank(&ranks[0], count, id, 0);  // bug: rank_never_joins
  if (result == ncclSuccess) REQUIRE(ncclCommDestroy(ranks[0]) == ncclSuccess);
}

FANOUT_BUG(buffers_overlap, "NCCL: rank 0", "sendbuff and recvbuff overlap, but not in the way that is in place") {
  Ranks all;
  all.in_a_group([&](int, ncclComm_t rank, const Lab& lab) {
    float* const target = corrected ? lab.a : lab.a + 1;
    (void)ncclAllReduce(lab.a, target, kCount / 2, ncclFloat, ncclSum, rank, lab.first);  // bug: buffers_overlap
  });
}

FANOUT_BUG(stream_of_another_device, "NCCL: AllReduce: rank 1 is on device 1, but its stream is on device 0") {
  Ranks all;
  all.in_a_group([&](int, ncclComm_t rank, const Lab& lab) {
    const cudaStream_t stream = corrected ? lab.first : all.labs[0].first;
    (void)ncclAllReduce(lab.a, lab.b, kCount, ncclFloat, ncclSum, rank, stream);  // bug: stream_of_another_device
  });
}

FANOUT_BUG(transfer_ends_differ, "NCCL: the two ends of a transfer do not agree", "Send of 256 float32 to rank 1",
           "Recv of 128 float32 from rank 0") {
  Ranks all;
  all.in_a_group([&](int r, ncclComm_t rank, const Lab& lab) {
    const int count = corrected ? kCount : kCount / 2;
    if (r == 0) (void)ncclSend(lab.a, kCount, ncclFloat, 1, rank, lab.first);  // bug: transfer_ends_differ
    if (r == 1) (void)ncclRecv(lab.b, count, ncclFloat, 0, rank, lab.first);   // bug: transfer_ends_differ
  });
}
