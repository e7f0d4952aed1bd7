// SPDX-License-Identifier: Apache-2.0
// Matches the calls of the ranks: collectives in the order of each rank, transfers pair by pair. The thread whose call
// completes a match runs it.
#include <algorithm>

#include "sim/nccl/clique.h"
#include "sim/nccl/report.h"
#include "sim/runtime/faults.h"

namespace sim::nccl {

void Clique::submit(std::span<const Issue> issues) {
  const std::lock_guard lock(mutex_);
  const auto is_mine = [this](const Issue& issue) { return issue.clique.get() == this; };
  for (const Issue& issue : issues) {
    if (is_mine(issue)) append(issue.rank, issue.operation);
  }
  progress();
  for (const Issue& issue : issues) {
    if (!is_mine(issue) || members_[issue.rank].is_done()) continue;
    members_[issue.rank].waiting_since = Clock::now();
    refuse_lonely_self_transfers(issue.rank);
  }
}

void Clique::append(int rank, const Operation& operation) {
  Member& member = members_[rank];
  if (!is_transfer(operation.kind)) {
    if (faults::strikes(faults::Kind::die, member.device)) return die(rank);
    if (faults::strikes(faults::Kind::stall, member.device)) {
      member.appended.fetch_add(1, std::memory_order_relaxed);  // and never arrives
      return;
    }
  }
  (is_transfer(operation.kind) ? member.transfers : member.collectives).push_back(operation);
  member.appended.fetch_add(1, std::memory_order_relaxed);
}

void Clique::progress() {
  while (failure() == ncclSuccess && next_collective_is_complete()) run_collective();
  for (int rank = 0; rank < size_; ++rank) {
    while (failure() == ncclSuccess && run_a_transfer(rank)) continue;
  }
}

/// Also fails the clique as soon as two ranks disagree, or a rank that is needed has left.
bool Clique::next_collective_is_complete() {
  const Operation* first = nullptr;
  bool complete = true;
  for (int rank = 0; rank < size_; ++rank) {
    const Member& member = members_[rank];
    if (member.collectives.empty()) {
      complete = false;
      continue;
    }
    if (first == nullptr) first = &member.collectives.front();
    if (agree(*first, member.collectives.front())) continue;
    warn_aloud("the ranks do not agree; real GPUs would hang or corrupt memory:\n" + calls_of_all_ranks());
    fail(ncclInvalidUsage);
    return false;
  }
  if (first == nullptr || complete) return complete;
  for (int rank = 0; rank < size_; ++rank) {
    if (!members_[rank].is_gone()) continue;
    warn_aloud("a rank has left, so the call of the others can never run:\n" + calls_of_all_ranks());
    fail(ncclInvalidUsage);
    return false;
  }
  return false;
}

void Clique::run_collective() {
  for (int rank = 0; rank < size_; ++rank) parts_[rank] = {members_[rank].collectives.front(), members_[rank].device};
  if (const ncclResult_t result = execute_collective(parts_); result != ncclSuccess) return fail(result);
  for (int rank = 0; rank < size_; ++rank) {
    members_[rank].collectives.erase(members_[rank].collectives.begin());
    complete(rank);
  }
  changed_.notify_all();
}

/// Runs the first send of `rank` that its peer receives: per pair, in order.
bool Clique::run_a_transfer(int rank) {
  const std::vector<Operation>& transfers = members_[rank].transfers;
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    if (transfers[i].kind == Kind::send && run_transfer(rank, i, transfers[i].root)) return true;
  }
  return false;
}

bool Clique::run_transfer(int source, std::size_t index, int target) {
  std::vector<Operation>& sends = members_[source].transfers;
  std::vector<Operation>& receives = members_[target].transfers;
  const auto receive = std::find_if(receives.begin(), receives.end(), [&](const Operation& operation) {
    return operation.kind == Kind::receive && operation.root == source;
  });
  if (receive == receives.end()) return false;
  const Part from{sends[index], members_[source].device};
  const Part to{*receive, members_[target].device};
  if (from.operation.count != to.operation.count || from.operation.type != to.operation.type) {
    warn_aloud("the two ends of a transfer do not agree; real GPUs would hang or corrupt memory:\n  rank " +
               std::to_string(source) + ": " + describe(from.operation) + "\n  rank " + std::to_string(target) + ": " +
               describe(to.operation));
    fail(ncclInvalidUsage);
    return false;
  }
  if (const ncclResult_t result = execute_transfer(from, to); result != ncclSuccess) {
    fail(result);
    return false;
  }
  receives.erase(receive);
  const auto is_the_send = [&](const Operation& operation) {
    return operation.kind == Kind::send && operation.root == target;
  };
  sends.erase(std::find_if(sends.begin(), sends.end(), is_the_send));  // the two lists may be one
  complete(source);
  complete(target);
  changed_.notify_all();
  return true;
}

/// The group is over, so the other half of a transfer to oneself cannot come.
void Clique::refuse_lonely_self_transfers(int rank) {
  if (failure() != ncclSuccess) return;
  for (const Operation& operation : members_[rank].transfers) {
    if (operation.root != rank) continue;
    warn_aloud("rank " + std::to_string(rank) + ": " + describe(operation) + " has no counterpart in its group");
    return fail(ncclInvalidUsage);
  }
}

void Clique::complete(int rank) {
  members_[rank].completed.fetch_add(1, std::memory_order_release);
}

}  // namespace sim::nccl
