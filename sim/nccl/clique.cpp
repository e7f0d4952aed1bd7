// SPDX-License-Identifier: Apache-2.0
// How the ranks of a communicator meet, wait and leave.
#include "sim/nccl/clique.h"

#include <cstdlib>
#include <thread>

#include "sim/nccl/report.h"
#include "sim/runtime/faults.h"
#include "sim/runtime/report.h"

namespace sim::nccl {
namespace {

constexpr std::chrono::microseconds kSpin{20};

/// FANOUT_SIM_NCCL_TIMEOUT in seconds: how long ranks may be missing before it counts as a hang.
double time_limit_s() {
  const char* text = std::getenv("FANOUT_SIM_NCCL_TIMEOUT");
  return text ? std::strtod(text, nullptr) : 5;
}

template <class Point>
bool is_late(Point since) {
  return Point::clock::now() - since > std::chrono::duration<double>(time_limit_s());
}

/// True once `done()` is; gives up after a time that is shorter than a thread takes to sleep and wake.
template <class Done>
bool spin_until(Done&& done) {
  if (done()) return true;
  for (const auto end = std::chrono::steady_clock::now() + kSpin; std::chrono::steady_clock::now() < end;) {
    std::this_thread::yield();
    if (done()) return true;
  }
  return false;
}

}  // namespace

Clique::Clique(int size) : size_(size), members_(std::make_unique<Member[]>(size)), parts_(size) {}

void Clique::join(int expected_size, int rank, int device, const SourceLine& place) {
  const std::lock_guard lock(mutex_);
  if (failure() != ncclSuccess) return;
  if (expected_size != size_) {
    warn_aloud("rank " + std::to_string(rank) + " expects " + std::to_string(expected_size) +
               " ranks in a communicator that another rank started with " + std::to_string(size_));
    return fail(ncclInvalidUsage);
  }
  Member& member = members_[rank];
  if (member.presence != Presence::expected) {
    warn_aloud("rank " + std::to_string(rank) + " joined twice with the same ncclUniqueId");
    return fail(ncclInvalidUsage);
  }
  member.presence = Presence::joined;
  member.device = device;
  member.joined_at = place;
  if (faults::strikes(faults::Kind::init, device)) {
    warn_aloud("rank " + std::to_string(rank) + " could not set up its communicator on cuda:" + std::to_string(device));
    return fail(ncclSystemError);
  }
  if (++joined_ == size_) settle();
}

void Clique::settle() {
  for (int rank = 0; rank < size_; ++rank) {
    for (int other = 0; other < rank; ++other) {
      if (members_[rank].device != members_[other].device) continue;
      warn_aloud("Duplicate GPU detected : rank " + std::to_string(rank) + " and rank " + std::to_string(other) +
                 " both on CUDA device " + std::to_string(members_[rank].device) + ", called at " +
                 place_text(members_[other].joined_at) + " and at " + place_text(members_[rank].joined_at));
      return fail(ncclInvalidUsage);
    }
  }
  ready_.store(true, std::memory_order_release);
  changed_.notify_all();
}

ncclResult_t Clique::wait_until_ready() {
  std::unique_lock lock(mutex_);
  const auto settled = [&] { return is_ready() || failure() != ncclSuccess; };
  if (!changed_.wait_for(lock, std::chrono::duration<double>(time_limit_s()), settled)) fail_for_time(true);
  return failure();
}

ncclResult_t Clique::poll_ready() {
  const std::lock_guard lock(mutex_);
  if (failure() == ncclSuccess && !is_ready()) {
    if (!is_late(made_at_)) return ncclInProgress;
    fail_for_time(true);
  }
  return failure();
}

ncclResult_t Clique::wait(int rank) {
  Member& member = members_[rank];
  const auto settled = [&] { return member.is_done() || failure() != ncclSuccess; };
  if (!spin_until(settled)) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::duration<double>(time_limit_s()), settled)) fail_for_time(false);
  }
  return member.is_done() ? ncclSuccess : failure(rank);
}

ncclResult_t Clique::poll(int rank) {
  Member& member = members_[rank];
  if (failure() != ncclSuccess) return failure(rank);
  if (member.is_done()) return ncclSuccess;
  const std::lock_guard lock(mutex_);
  if (failure() == ncclSuccess && is_late(member.waiting_since)) fail_for_time(false);
  return failure() != ncclSuccess ? failure(rank) : ncclInProgress;
}

bool Clique::take(int rank, const Operation& operation) {
  const std::lock_guard lock(mutex_);
  Member& member = members_[rank];
  if (member.user != std::thread::id{} && member.user != std::this_thread::get_id()) {
    warn_aloud("two threads use the communicator of rank " + std::to_string(rank) +
               " at the same time; NCCL would corrupt its state: " + describe(operation) +
               " while another thread is in its call or group of " + place_text(member.used_at));
    fail(ncclInvalidUsage);
    return false;
  }
  member.user = std::this_thread::get_id();
  member.used_at = operation.place;
  return true;
}

void Clique::release(int rank) {
  const std::lock_guard lock(mutex_);
  members_[rank].user = {};
}

void Clique::set_presence(int rank, Presence presence) {
  const std::lock_guard lock(mutex_);
  members_[rank].presence = presence;
}

void Clique::leave(int rank, Presence how) {
  const std::lock_guard lock(mutex_);
  members_[rank].presence = how;
  if (how != Presence::aborted || failure() != ncclSuccess) return;
  warn("rank " + std::to_string(rank) + " aborted its communicator");
  fail(ncclRemoteError);
}

void Clique::fail(ncclResult_t result) {
  failure_.store(result, std::memory_order_release);
  changed_.notify_all();
}

void Clique::die(int rank) {
  dead_rank_.store(rank, std::memory_order_release);
  warn_aloud("rank " + std::to_string(rank) + " on cuda:" + std::to_string(members_[rank].device) +
             " died in its collective; the communicator ends for all ranks");
  fail(ncclRemoteError);
}

void Clique::fail_for_time(bool initialising) {
  const std::string limit = std::to_string(static_cast<int>(time_limit_s() * 1000)) + " ms";
  warn_aloud(
      (initialising ? "not all ranks joined the communicator within " : "not all ranks made their call within ") +
      limit + " (FANOUT_SIM_NCCL_TIMEOUT), missing are " + missing_ranks() + "; real GPUs would wait for ever:\n" +
      calls_of_all_ranks() +
      "A thread that drives several ranks must put their calls between ncclGroupStart and ncclGroupEnd.");
  fail(ncclInternalError);
}

std::string Clique::missing_ranks() const {
  std::string text;
  for (int rank = 0; rank < size_; ++rank) {
    const Member& member = members_[rank];
    const bool has_called = !member.collectives.empty() || !member.transfers.empty();
    if (is_ready() ? has_called : member.presence != Presence::expected) continue;
    text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank);
    if (member.device >= 0) text += " on cuda:" + std::to_string(member.device);
  }
  return text.empty() ? "counterparts of the calls" : text;
}

std::string Clique::calls_of_all_ranks() const {
  std::string text;
  for (int rank = 0; rank < size_; ++rank) {
    const Member& member = members_[rank];
    text += "  rank " + std::to_string(rank);
    if (member.presence == Presence::expected) {
      text += " has not joined\n";
      continue;
    }
    text += " on cuda:" + std::to_string(member.device) + ": ";
    if (member.presence == Presence::finalized) text += "finalized, ";
    if (member.presence == Presence::destroyed) text += "destroyed its communicator, ";
    if (member.presence == Presence::aborted) text += "aborted its communicator, ";
    std::string calls;
    for (const auto* list : {&member.collectives, &member.transfers}) {
      for (const Operation& operation : *list) calls += (calls.empty() ? "" : "; ") + describe(operation);
    }
    text += calls.empty() ? (is_ready() ? std::string("no call") : "joined at " + place_text(member.joined_at)) : calls;
    text += '\n';
  }
  return text;
}

}  // namespace sim::nccl
