// SPDX-License-Identifier: Apache-2.0
// NCCL's communication calls: checked in NCCL's order, then put in the group or run.
#include <string>

#include "sim/nccl/group.h"
#include "sim/nccl/reduce.h"
#include "sim/nccl/rendezvous.h"
#include "sim/nccl/report.h"

namespace sim::nccl {
namespace {

ncclResult_t refuse(const Operation& operation, const std::string& text) {
  warn(std::string(name_of(operation.kind)) + " : " + text);
  return ncclInvalidArgument;
}

/// Whether the communicator takes calls: formed, not finalized, no error, no call in progress.
ncclResult_t check_state(ncclComm_t comm, const Operation& operation) {
  if (comm->is_initialising) return refuse(operation, "the communicator is still in progress");
  if (comm->is_finalized) {
    warn_aloud("rank " + std::to_string(comm->rank) + ": " + describe(operation) + " after ncclCommFinalize");
    return ncclInvalidUsage;
  }
  if (comm->clique->failure() != ncclSuccess) [[unlikely]]
    return comm->clique->failure(comm->rank);
  if (!comm->is_blocking && comm->clique->poll(comm->rank) == ncclInProgress) {
    return refuse(operation, "Attempt to use communicator before the previous operation returned ncclSuccess");
  }
  return ncclSuccess;
}

/// The arguments, in NCCL's order: root or peer, type, reduction.
ncclResult_t check_arguments(const Operation& operation, int ranks) {
  if ((has_root(operation.kind) || is_transfer(operation.kind)) && (operation.root < 0 || operation.root >= ranks)) {
    return refuse(operation, std::string("invalid ") + (is_transfer(operation.kind) ? "peer " : "root ") +
                                 std::to_string(operation.root) + " (it should be in the 0.." +
                                 std::to_string(ranks - 1) + " range)");
  }
  if (operation.type < 0 || operation.type >= ncclNumTypes) {
    return refuse(operation, "invalid type " + std::to_string(operation.type));
  }
  if (!has_reduction(operation.kind)) return ncclSuccess;
  if (operation.operation < 0 || operation.operation >= ncclNumOps) {
    return refuse(operation, "invalid reduction operation " + std::to_string(operation.operation));
  }
  if (!can_reduce(operation.type)) {
    warn_aloud(describe(operation) + ": reductions of " + type_name(operation.type) + " are not simulated yet");
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

ncclResult_t call(ncclComm_t comm, const Operation& operation) {
  if (!is_comm(comm, name_of(operation.kind))) return note(ncclInvalidArgument);
  if (const ncclResult_t error = check_state(comm, operation); error != ncclSuccess) return note(error);
  const int ranks = comm->clique->size();
  if (const ncclResult_t error = check_arguments(operation, ranks); error != ncclSuccess) return note(error);
  if (!is_transfer(operation.kind) && operation.count == 0) return ncclSuccess;
  if (!comm->clique->take(comm->rank, operation)) return note(ncclInvalidUsage);
  if (is_transfer(operation.kind)) return note(enqueue(comm, operation));
  return note(ranks == 1 ? issue_now(comm, operation) : enqueue(comm, operation));
}

}  // namespace
}  // namespace sim::nccl

using sim::nccl::call;
using sim::nccl::Kind;

ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, {Kind::reduce, datatype, op, root, sendbuff, recvbuff, count, stream});
}

ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return call(comm, {Kind::broadcast, datatype, ncclSum, root, buff, buff, count, stream});
}

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return call(comm, {Kind::broadcast, datatype, ncclSum, root, sendbuff, recvbuff, count, stream});
}

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return call(comm, {Kind::all_reduce, datatype, op, 0, sendbuff, recvbuff, count, stream});
}

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, {Kind::reduce_scatter, datatype, op, 0, sendbuff, recvbuff, recvcount, stream});
}

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream) {
  return call(comm, {Kind::all_gather, datatype, ncclSum, 0, sendbuff, recvbuff, sendcount, stream});
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call(comm, {Kind::send, datatype, ncclSum, peer, sendbuff, nullptr, count, stream});
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return call(comm, {Kind::receive, datatype, ncclSum, peer, nullptr, recvbuff, count, stream});
}
