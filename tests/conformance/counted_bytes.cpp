// SPDX-License-Identifier: Apache-2.0
// Linked with --wrap: a call of `name` comes to __wrap_name, and __real_name is the library's.
#include "tests/conformance/counted_bytes.h"

#include <nccl.h>

namespace fanout::test {

CountedBytes& counted_bytes() {
  static CountedBytes bytes;
  return bytes;
}

namespace {

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    default:
      return 1;
  }
}

std::size_t bytes_beside_root(std::size_t count, ncclDataType_t type, int root, ncclComm_t communicator) {
  int rank = -1;
  return ncclCommUserRank(communicator, &rank) == ncclSuccess && rank != root ? count * size_of(type) : 0;
}

}  // namespace
}  // namespace fanout::test

using fanout::test::counted_bytes;

extern "C" {

ncclResult_t __real_ncclBroadcast(const void*, void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
ncclResult_t __wrap_ncclBroadcast(const void* source, void* target, std::size_t count, ncclDataType_t type, int root,
                                  ncclComm_t communicator, cudaStream_t stream) {
  counted_bytes().broadcast += fanout::test::bytes_beside_root(count, type, root, communicator);
  return __real_ncclBroadcast(source, target, count, type, root, communicator, stream);
}

ncclResult_t __real_ncclReduce(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t,
                               cudaStream_t);
ncclResult_t __wrap_ncclReduce(const void* source, void* target, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, int root, ncclComm_t communicator, cudaStream_t stream) {
  counted_bytes().reduced += fanout::test::bytes_beside_root(count, type, root, communicator);
  return __real_ncclReduce(source, target, count, type, operation, root, communicator, stream);
}
}
