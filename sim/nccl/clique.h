// SPDX-License-Identifier: Apache-2.0
// The ranks of one communicator: how they meet, and how their calls are matched and run.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "sim/nccl/execute.h"

namespace sim::nccl {

enum class Presence : std::uint8_t { expected, joined, finalized, destroyed, aborted };

class Clique;

/// One call of a group, without its handle: the communicator may be aborted while a thread waits for the call.
struct Issue {
  std::shared_ptr<Clique> clique;
  int rank;
  bool is_blocking;
  Operation operation;
};

/// All calls are safe from several threads. A failure ends the communicator: every later call gets its result.
class Clique {
 public:
  explicit Clique(int size);

  int size() const { return size_; }
  /// ncclSuccess, or what ended the communicator.
  ncclResult_t failure() const { return failure_.load(std::memory_order_acquire); }
  /// The same as `rank` sees it: what killed a rank reaches the others as ncclRemoteError.
  ncclResult_t failure(int rank) const {
    const ncclResult_t shared = failure();
    return shared != ncclSuccess && rank == dead_rank_.load(std::memory_order_acquire) ? ncclUnhandledCudaError
                                                                                       : shared;
  }
  bool is_ready() const { return ready_.load(std::memory_order_acquire); }

  /// A rank arrives; the last one settles whether the communicator forms.
  void join(int expected_size, int rank, int device, const SourceLine& place);
  /// Until every rank has joined; a rank that never does is reported after the time limit.
  ncclResult_t wait_until_ready();
  /// The same without waiting: ncclInProgress.
  ncclResult_t poll_ready();

  /// Marks the rank as used by this thread, from its call to the end of its group. False, and said on stderr with both
  /// places, where another thread is using it: that ends the communicator.
  bool take(int rank, const Operation& operation);
  void release(int rank);

  /// Takes those calls of a group that are this communicator's, and runs what all ranks concerned have called.
  void submit(std::span<const Issue> issues);
  /// Until all calls of `rank` have run.
  ncclResult_t wait(int rank);
  /// The same without waiting: ncclInProgress.
  ncclResult_t poll(int rank);

  void finalize(int rank) { set_presence(rank, Presence::finalized); }
  /// The rank will call no more. An abort ends the communicator for all.
  void leave(int rank, Presence how);

 private:
  using Clock = std::chrono::steady_clock;

  struct Member {
    int device = -1;
    Presence presence = Presence::expected;
    SourceLine joined_at{};
    std::vector<Operation> collectives;  // called and not yet run, in order
    std::vector<Operation> transfers;
    std::atomic<std::uint64_t> appended{0};
    std::atomic<std::uint64_t> completed{0};
    Clock::time_point waiting_since;
    std::thread::id user;  // in the middle of a call or a group
    SourceLine used_at;
    bool is_done() const { return completed.load(std::memory_order_acquire) == appended.load(); }
    bool is_gone() const { return presence > Presence::joined; }
  };

  void set_presence(int rank, Presence presence);
  void append(int rank, const Operation& operation);
  void progress();
  void refuse_lonely_self_transfers(int rank);
  void settle();
  bool next_collective_is_complete();
  void run_collective();
  bool run_a_transfer(int rank);
  bool run_transfer(int source, std::size_t index, int target);
  void complete(int rank);
  void fail(ncclResult_t result);
  void die(int rank);
  void fail_for_time(bool initialising);
  std::string missing_ranks() const;
  std::string calls_of_all_ranks() const;

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Member[]> members_;
  std::vector<Part> parts_;  // of the collective that runs
  int joined_ = 0;
  Clock::time_point made_at_ = Clock::now();
  std::atomic<bool> ready_{false};
  std::atomic<ncclResult_t> failure_{ncclSuccess};
  std::atomic<int> dead_rank_{-1};
};

}  // namespace sim::nccl

/// A rank's handle. It outlives nothing: the clique is shared by the ranks and by threads that wait in it.
struct ncclComm {
  std::shared_ptr<sim::nccl::Clique> clique;
  int rank = 0;
  int device = 0;
  sim::SourceLine made_at = sim::call_place;
  bool is_blocking = true;
  std::atomic<bool> is_initialising{true};
  std::atomic<bool> is_finalized{false};
};
