// SPDX-License-Identifier: Apache-2.0
// A communicator over the first devices of the machine, with one stream a rank, for tests.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/platform/device_array.h"

namespace fanout::tests {

/// The largest communicator of the tests: four ranks, or what the machine has.
inline int most_ranks() {
  int count = 0;
  REQUIRE(cudaGetDeviceCount(&count) == cudaSuccess);
  return std::min(count, 4);
}

/// Rank r is on device r.
class Ranks {
 public:
  explicit Ranks(int size) : comms_(size), streams_(size) {
    REQUIRE(ncclCommInitAll(comms_.data(), size, nullptr) == ncclSuccess);
    for (int rank = 0; rank < size; ++rank) {
      const CurrentDevice current(rank);
      REQUIRE(cudaStreamCreateWithFlags(&streams_[rank], cudaStreamNonBlocking) == cudaSuccess);
    }
  }
  ~Ranks() {
    for (const ncclComm_t comm : comms_) ncclCommDestroy(comm);
    for (const cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int size() const { return static_cast<int>(comms_.size()); }
  ncclComm_t comm(int rank) const { return comms_[rank]; }
  cudaStream_t stream(int rank) const { return streams_[rank]; }

  /// Aborts all ranks, for a test that broke the communicator.
  void abort() {
    for (ncclComm_t& comm : comms_) {
      ncclCommAbort(comm);
      comm = nullptr;
    }
  }

  /// call(rank) for every rank, in one group.
  template <class Call>
  ncclResult_t in_a_group(Call&& call) const {
    ncclGroupStart();
    for (int rank = 0; rank < size(); ++rank) call(rank);
    return ncclGroupEnd();
  }

 private:
  std::vector<ncclComm_t> comms_;
  std::vector<cudaStream_t> streams_;
};

template <class T>
inline constexpr ncclDataType_t kType = ncclNumTypes;
template <>
inline constexpr ncclDataType_t kType<std::int8_t> = ncclInt8;
template <>
inline constexpr ncclDataType_t kType<std::uint8_t> = ncclUint8;
template <>
inline constexpr ncclDataType_t kType<std::int32_t> = ncclInt32;
template <>
inline constexpr ncclDataType_t kType<std::uint32_t> = ncclUint32;
template <>
inline constexpr ncclDataType_t kType<std::int64_t> = ncclInt64;
template <>
inline constexpr ncclDataType_t kType<std::uint64_t> = ncclUint64;
template <>
inline constexpr ncclDataType_t kType<float> = ncclFloat32;
template <>
inline constexpr ncclDataType_t kType<double> = ncclFloat64;

}  // namespace fanout::tests
