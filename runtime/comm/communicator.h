// SPDX-License-Identifier: Apache-2.0
// Collectives among a list of devices, by NCCL. Rank order is the order of the list; rank 0 is the root.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/device/stream.h"
#include "runtime/tensor/dtype.h"

namespace fanout {

/// What a collective begins behind: the work that the devices' compute streams hold at the call, or only what the
/// communicator has queued before.
enum class Behind : bool { computation, collectives };

/// One NCCL communicator for each device of a list. Where the threads that queue work do it themselves, large
/// collectives of channel 0 are cut in ranges, for the lanes of Workers, each with a channel of its own; the results
/// are the same.
///
///  Collectives run on the devices' communication streams, behind the
/// work that their compute streams hold at the call; wait_for_collectives() puts later computation behind them.
/// Communicators of one list that differ in their channel have streams of their own, and so run beside each other.
///
/// Where a link between the devices is closed (close_link), or NCCL fails for the system's sake before it has moved
/// anything (ncclSystemError from a collective, of which it warns), collectives are copies and sums in rank order on
/// the compute streams. NCCL may add in another order.
class Communicator {
 public:
  /// Devices must be distinct. Throws NcclError when NCCL cannot connect them, and after 60 s without an answer.
  explicit Communicator(std::vector<Device> devices, int channel = 0);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// The communicator of this list, made at its first use and kept until release_all().
  static Communicator& of(const std::vector<Device>& devices, int channel = 0);
  /// Destroys all that of() made; none may be used any more.
  static void release_all();

  const std::vector<Device>& devices() const { return devices_; }
  int world_size() const { return static_cast<int>(devices_.size()); }

  /// Copies `bytes` bytes at buffers[0] to buffers[rank] of every rank.
  void broadcast(std::span<void* const> buffers, std::size_t bytes, Behind behind = Behind::computation);

  /// result = sum over ranks of buffers[rank], in rank order where the library allows; `result` lies on rank 0's device
  /// and may be buffers[0]. `elements` of `dtype` each.
  void reduce(std::span<const void* const> buffers, void* result, std::int64_t elements, DType dtype,
              Behind behind = Behind::computation);

  /// results[rank] = sum over ranks of buffers[rank], added as `reduce` does; results[rank] may be buffers[rank].
  void all_reduce(std::span<const void* const> buffers, std::span<void* const> results, std::int64_t elements,
                  DType dtype, Behind behind = Behind::computation);

  /// Puts the collectives from now on behind the work that the compute streams hold.
  void wait_for_computation();
  /// Where work of rank 0's device stands between two collectives, behind the first and before the second.
  StreamView root_stream() const;
  /// Work queued on the compute streams from now on waits for all collectives queued so far.
  void wait_for_collectives();

 private:
  void connect();
  void disconnect();
  void settle(ncclResult_t result, const char* call);
  template <class Collective, class Copies>
  void run(Behind behind, const Collective& collective, const Copies& copies);
  template <class Part>
  bool run_in_lanes(Behind behind, std::size_t elements, std::size_t element_bytes, const Part& part);
  void broadcast_range(std::span<void* const> buffers, std::size_t bytes, Behind behind);
  void reduce_range(std::span<const void* const> buffers, void* result, std::int64_t elements, DType dtype,
                    Behind behind);
  void all_reduce_range(std::span<const void* const> buffers, std::span<void* const> results, std::int64_t elements,
                        DType dtype, Behind behind);
  void broadcast_by_nccl(std::span<void* const> buffers, std::size_t bytes);
  void reduce_by_nccl(std::span<const void* const> buffers, void* result, std::int64_t elements, DType dtype);
  void all_reduce_by_nccl(std::span<const void* const> buffers, std::span<void* const> results, std::int64_t elements,
                          DType dtype);
  void reduce_by_copies(std::span<const void* const> buffers, void* result, std::int64_t elements, DType dtype);

  std::vector<Device> devices_;
  int channel_;
  std::vector<ncclComm_t> ranks_;  // null where NCCL is not used
  bool by_copies_ = false;
  int lanes_ = 1;
  std::mutex one_at_a_time_;
};

}  // namespace fanout
