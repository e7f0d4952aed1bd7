// SPDX-License-Identifier: Apache-2.0
// Runs a matched operation as work of all its streams: their locks are taken in the order of their addresses.
#include "sim/nccl/execute.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "sim/nccl/reduce.h"
#include "sim/nccl/report.h"
#include "sim/runtime/faults.h"
#include "sim/runtime/order.h"
#include "sim/runtime/protection.h"
#include "sim/runtime/reach.h"
#include "sim/runtime/report.h"
#include "sim/runtime/streams.h"
#include "sim/submit.h"

namespace sim::nccl {
namespace {

constexpr std::size_t kMostRanks = kMaxDevices;

/// The stream of a rank, with the buffers of that rank's device that the operation touches.
struct StreamUse {
  Stream* stream = nullptr;
  std::array<Access, 4> accesses{};
  int count = 0;
  bool sends = false, receives = false;
  SourceLine place{};
};

/// The default streams are those of the communicator's device, whatever device is current.
Stream* resolve(cudaStream_t handle, int device) {
  if (handle == nullptr || handle == cudaStreamLegacy) return device_at(device).legacy_stream;
  if (handle == cudaStreamPerThread) return per_thread_stream(device);
  return find_stream(handle, "NCCL");
}

/// Reports name the rank's own call, though another one's has completed the match.
class PlaceGuard {
 public:
  explicit PlaceGuard(SourceLine place) : outer_(std::exchange(call_place, place)) {}
  ~PlaceGuard() { call_place = outer_; }
  PlaceGuard(const PlaceGuard&) = delete;
  PlaceGuard& operator=(const PlaceGuard&) = delete;

 private:
  SourceLine outer_;
};

class StreamUses {
 public:
  /// False, and said on stderr, if the stream isn't one of the part's device.
  bool add(const Part& part, int rank, std::span<const Access> accesses) {
    Stream* stream = resolve(part.operation.stream, part.device);
    if (stream == nullptr || stream->device != part.device) {
      warn_aloud(std::string(name_of(part.operation.kind)) + ": rank " + std::to_string(rank) + " is on device " +
                 std::to_string(part.device) + ", but its stream " +
                 (stream ? "is on device " + std::to_string(stream->device) : "is no stream") + ", called at " +
                 place_text(part.operation.place));
      return false;
    }
    StreamUse* use = std::find_if(uses_.begin(), uses_.begin() + size_,
                                  [&](const StreamUse& other) { return other.stream == stream; });
    if (use == uses_.begin() + size_) uses_[size_++] = {.stream = stream, .place = part.operation.place};
    for (const Access& access : accesses) {
      use->accesses[use->count++] = access;
      if (access.pointer != nullptr) (access.write ? use->receives : use->sends) = true;
    }
    return true;
  }

  /// Runs `work` once, as the next operation of all the streams. False if a stream refused it or a pointer is bad.
  template <class Work>
  bool run(const char* what, Work work) {
    if (order::is_on()) note_flow();
    if (is_late()) return enqueue(what, std::move(work));
    std::sort(uses_.begin(), uses_.begin() + size_,
              [](const StreamUse& a, const StreamUse& b) { return a.stream < b.stream; });
    what_ = what;
    work_ = {&work, [](void* object) { (*static_cast<Work*>(object))(); }, sizeof(Work)};
    step(this);
    return ran_;
  }

 private:
  // Who receives something comes behind what the streams of the senders hold. The other way round nothing is promised:
  // a sender is done when its data has left.
  void note_flow() {
    for (const StreamUse& to : std::span(uses_.data(), size_)) {
      for (const StreamUse& from : std::span(uses_.data(), size_)) {
        if (from.stream != to.stream && from.sends && to.receives) order::flows(*from.stream, *to.stream);
      }
    }
  }

  // The same in late mode: queued in all streams, once every one of them has accepted its buffers.
  template <class Work>
  bool enqueue(const char* what, Work work) {
    std::vector<Stream*> streams;
    for (const StreamUse& use : std::span(uses_.data(), size_)) {
      if (sticky_of(*use.stream) != cudaSuccess) return false;
      if (!all_reachable(*use.stream, what, use.accesses.data(), use.count)) return false;
      streams.push_back(use.stream);
    }
    for (const StreamUse& use : std::span(uses_.data(), size_)) {
      if (!order::is_on()) break;
      const PlaceGuard place(use.place);
      order::operation(*use.stream, what, use.accesses.data(), use.count);
    }
    late::enqueue_joint(streams, [work = std::move(work)] {
      const protection::Opened opened = protection::open_all();
      work();
    });
    return true;
  }

  static void step(void* object) {
    auto& self = *static_cast<StreamUses*>(object);
    if (self.entered_ == self.size_) {
      const protection::Opened opened = protection::open_all();
      self.work_.run(self.work_.object);
      self.ran_ = true;
      return;
    }
    const StreamUse& use = self.uses_[self.entered_++];
    const PlaceGuard place(use.place);
    (void)submit_work(reinterpret_cast<cudaStream_t>(use.stream), self.what_, use.accesses.data(), use.count,
                      {object, step, 0}, false);  // an error shows as work that did not run
  }

  std::array<StreamUse, kMostRanks> uses_;
  std::size_t size_ = 0;
  std::size_t entered_ = 0;
  const char* what_ = nullptr;
  WorkRef work_{};
  bool ran_ = false;
};

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto x = reinterpret_cast<std::uintptr_t>(a);
  const auto y = reinterpret_cast<std::uintptr_t>(b);
  return x < y + b_bytes && y < x + a_bytes;
}

/// Which buffers of a rank a collective reads and writes.
struct Extent {
  bool reads = true;
  bool writes = true;
  std::size_t read_bytes;
  std::size_t written_bytes;
  std::size_t in_place_read_offset = 0;  // the only legal overlap: send + this == receive + the other
  std::size_t in_place_write_offset = 0;
};

Extent extent_of(const Operation& operation, std::size_t rank, std::size_t ranks) {
  const std::size_t bytes = operation.count * size_bytes(operation.type);
  Extent extent{.read_bytes = bytes, .written_bytes = bytes};
  const bool is_root = static_cast<std::size_t>(operation.root) == rank;
  switch (operation.kind) {
    case Kind::broadcast:
      extent.reads = is_root;
      break;
    case Kind::reduce:
      extent.writes = is_root;
      break;
    case Kind::all_gather:
      extent.written_bytes = ranks * bytes;
      extent.in_place_write_offset = rank * bytes;
      break;
    case Kind::reduce_scatter:
      extent.read_bytes = ranks * bytes;
      extent.in_place_read_offset = rank * bytes;
      break;
    default:
      break;
  }
  return extent;
}

/// False, and said on stderr, for a missing buffer and for buffers that overlap other than exactly in place.
bool has_valid_buffers(const Operation& operation, const Extent& extent, std::size_t rank) {
  const char* fault = nullptr;
  const char* send = static_cast<const char*>(operation.send);
  const char* receive = static_cast<const char*>(operation.receive);
  if (extent.reads && send == nullptr) {
    fault = "sendbuff is NULL; a GPU would read address 0";
  } else if (extent.writes && receive == nullptr) {
    fault = "recvbuff is NULL; a GPU would write address 0";
  } else if (extent.reads && extent.writes &&
             send + extent.in_place_read_offset != receive + extent.in_place_write_offset &&
             overlap(send, extent.read_bytes, receive, extent.written_bytes)) {
    fault = "sendbuff and recvbuff overlap, but not in the way that is in place";
  }
  if (fault == nullptr) return true;
  warn_aloud("rank " + std::to_string(rank) + ", " + describe(operation) + ": " + fault);
  return false;
}

/// Buffers of all ranks, by rank.
struct Buffers {
  std::array<const void*, kMostRanks> send;
  std::array<void*, kMostRanks> receive;
};

std::byte* at(void* base, std::size_t offset_bytes) {
  return static_cast<std::byte*>(base) + offset_bytes;
}
const std::byte* at(const void* base, std::size_t offset_bytes) {
  return static_cast<const std::byte*>(base) + offset_bytes;
}

/// Part r of the receive buffers of all ranks gets rank r's data.
void gather_on_all(const Buffers& buffers, std::size_t ranks, std::size_t bytes) {
  std::array<void*, kMostRanks> targets;
  for (std::size_t source = 0; source < ranks; ++source) {
    for (std::size_t rank = 0; rank < ranks; ++rank) targets[rank] = at(buffers.receive[rank], source * bytes);
    copy_to_all(buffers.send[source], {targets.data(), ranks}, bytes);
  }
}

/// Rank r gets the combination of part r of all send buffers.
void reduce_and_scatter(const Buffers& buffers, std::size_t ranks, const Operation& call) {
  const std::size_t bytes = call.count * size_bytes(call.type);
  std::array<const void*, kMostRanks> inputs;
  for (std::size_t target = 0; target < ranks; ++target) {
    for (std::size_t rank = 0; rank < ranks; ++rank) inputs[rank] = at(buffers.send[rank], target * bytes);
    reduce(call.type, call.operation, {inputs.data(), ranks}, {&buffers.receive[target], 1}, call.count);
  }
}

/// What the link between two ranks does to what the second receives from the first.
struct LinkUse {
  std::size_t target;
  faults::Transfer transfer;
};

/// Every link that a collective needs, once; none where no fault was requested.
std::vector<LinkUse> links_of(std::span<const Part> parts) {
  std::vector<LinkUse> links;
  if (!faults::any()) return links;
  const Operation& call = parts[0].operation;
  const auto use = [&](std::size_t source, std::size_t target) {
    links.push_back({target, faults::transfer(parts[source].device, parts[target].device)});
  };
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    for (std::size_t other = 0; other < rank; ++other) {
      const std::size_t root = static_cast<std::size_t>(call.root);
      if (!has_root(call.kind)) {
        use(other, rank);
      } else if (rank == root || other == root) {
        const std::size_t leaf = rank == root ? other : rank;
        call.kind == Kind::broadcast ? use(root, leaf) : use(leaf, root);
      }
    }
  }
  return links;
}

/// ncclSystemError, and said on stderr, where one of them is down.
ncclResult_t check_links(const char* call, const std::vector<LinkUse>& links) {
  if (std::ranges::none_of(links, [](const LinkUse& link) { return link.transfer.is_down; })) return ncclSuccess;
  warn_aloud(std::string(call) + ": a link that it needs is down; nothing was moved");
  return ncclSystemError;
}

void move_data(const Operation& call, const Buffers& buffers, std::size_t ranks) {
  const std::size_t bytes = call.count * size_bytes(call.type);
  const std::span<const void* const> send(buffers.send.data(), ranks);
  const std::span<void* const> receive(buffers.receive.data(), ranks);
  switch (call.kind) {
    case Kind::broadcast:
      return copy_to_all(send[call.root], receive, bytes);
    case Kind::reduce:
      return reduce(call.type, call.operation, send, receive.subspan(call.root, 1), call.count);
    case Kind::all_reduce:
      return reduce(call.type, call.operation, send, receive, call.count);
    case Kind::all_gather:
      return gather_on_all(buffers, ranks, bytes);
    case Kind::reduce_scatter:
      return reduce_and_scatter(buffers, ranks, call);
    default:
      return;
  }
}

}  // namespace

ncclResult_t execute_collective(std::span<const Part> parts) {
  const std::size_t ranks = parts.size();
  StreamUses streams;
  Buffers buffers;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Operation& operation = parts[rank].operation;
    const Extent extent = extent_of(operation, rank, ranks);
    if (!has_valid_buffers(operation, extent, rank)) return ncclUnhandledCudaError;
    buffers.send[rank] = operation.send;
    buffers.receive[rank] = operation.receive;
    const std::array<Access, 2> accesses = {
        Access{extent.reads ? operation.send : nullptr, false, extent.read_bytes},
        Access{extent.writes ? operation.receive : nullptr, true, extent.written_bytes}};
    if (!streams.add(parts[rank], static_cast<int>(rank), accesses)) return ncclUnhandledCudaError;
  }
  const Operation& call = parts[0].operation;
  const std::vector<LinkUse> links = links_of(parts);
  if (const ncclResult_t error = check_links(name_of(call.kind), links); error != ncclSuccess) return error;
  const auto work = [call, buffers, ranks, links] {
    move_data(call, buffers, ranks);
    const std::size_t bytes = call.count * size_bytes(call.type);
    for (const LinkUse& link : links) link.transfer.finish(buffers.receive[link.target], bytes);
  };
  return streams.run(name_of(call.kind), work) ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t execute_transfer(const Part& source, const Part& target) {
  const std::size_t bytes = source.operation.count * size_bytes(source.operation.type);
  const void* from = source.operation.send;
  void* to = target.operation.receive;
  if (bytes > 0 && (from == nullptr || to == nullptr)) {
    warn_aloud(describe(source.operation) + " and " + describe(target.operation) + ": a buffer is NULL");
    return ncclUnhandledCudaError;
  }
  StreamUses streams;
  const std::array<Access, 1> reads = {Access{from, false, bytes}};
  const std::array<Access, 1> writes = {Access{to, true, bytes}};
  if (!streams.add(source, target.operation.root, reads) || !streams.add(target, source.operation.root, writes)) {
    return ncclUnhandledCudaError;
  }
  const faults::Transfer link = faults::transfer(source.device, target.device);
  if (const ncclResult_t error = check_links("Send", {{0, link}}); error != ncclSuccess) return error;
  return streams.run("Send",
                     [from, to, bytes, link] {
                       copy_to_all(from, {&to, 1}, bytes);
                       link.finish(to, bytes);
                     })
             ? ncclSuccess
             : ncclUnhandledCudaError;
}

}  // namespace sim::nccl
