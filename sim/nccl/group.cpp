// SPDX-License-Identifier: Apache-2.0
// Collects the calls of a group and issues them together.
#include "sim/nccl/group.h"

#include <algorithm>
#include <span>
#include <vector>

#include "sim/nccl/rendezvous.h"
#include "sim/nccl/report.h"

namespace sim::nccl {
namespace {

struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Issue> issues;
  std::vector<Arrival> arrivals;
};
thread_local Group group;

Issue make_issue(ncclComm_t comm, const Operation& operation) {
  return {comm->clique, comm->rank, comm->is_blocking, operation};
}

void release(std::span<const Issue> issues) {
  for (const Issue& one : issues) one.clique->release(one.rank);
}

/// Every call is known to its communicator before any is waited for, so a group cannot wait for itself.
ncclResult_t issue(std::span<const Issue> issues) {
  for (std::size_t i = 0; i < issues.size(); ++i) {
    const auto is_the_same = [&](const Issue& other) { return other.clique == issues[i].clique; };
    const auto earlier = issues.first(i);
    if (std::none_of(earlier.begin(), earlier.end(), is_the_same)) issues[i].clique->submit(issues);
  }
  ncclResult_t result = ncclSuccess;
  for (const Issue& one : issues) {
    const ncclResult_t answer = one.is_blocking ? one.clique->wait(one.rank) : one.clique->poll(one.rank);
    if (answer != ncclSuccess && (result == ncclSuccess || result == ncclInProgress)) result = answer;
  }
  release(issues);
  return result;
}

ncclResult_t arrive(std::span<const Arrival> arrivals) {
  for (const Arrival& arrival : arrivals) meet(arrival);
  ncclResult_t result = ncclSuccess;
  for (const Arrival& arrival : arrivals) {
    if (const ncclResult_t answer = finish(arrival); answer != ncclSuccess) result = answer;
  }
  return result;
}

ncclResult_t run(std::span<const Issue> issues, std::span<const Arrival> arrivals) {
  if (issues.empty()) return arrive(arrivals);
  if (arrivals.empty()) return issue(issues);
  warn_aloud("a group holds both communicator creation and communication; NCCL does not allow to mix them");
  for (const Arrival& arrival : arrivals) discard(arrival);
  release(issues);
  return ncclInvalidUsage;
}

}  // namespace

ncclResult_t note(ncclResult_t error) {
  if (group.depth > 0 && error != ncclSuccess && error != ncclInProgress) group.error = error;
  return error;
}

ncclResult_t enqueue(ncclComm_t comm, const Operation& operation) {
  if (group.depth == 0) return issue_now(comm, operation);
  group.issues.push_back(make_issue(comm, operation));
  return ncclSuccess;
}

ncclResult_t enqueue(const Arrival& arrival) {
  if (group.depth == 0) return arrive({&arrival, 1});
  group.arrivals.push_back(arrival);
  return ncclSuccess;
}

ncclResult_t issue_now(ncclComm_t comm, const Operation& operation) {
  const Issue one = make_issue(comm, operation);
  return issue({&one, 1});
}

}  // namespace sim::nccl

ncclResult_t ncclGroupStart() {
  ++sim::nccl::group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  sim::nccl::Group& group = sim::nccl::group;
  if (group.depth == 0) {
    sim::nccl::warn("ncclGroupEnd: not in a group call.");
    return ncclInvalidUsage;
  }
  if (--group.depth > 0) return ncclSuccess;
  ncclResult_t result = group.error;
  if (result == ncclSuccess) {
    result = sim::nccl::run(group.issues, group.arrivals);
  } else {
    for (const sim::nccl::Arrival& arrival : group.arrivals) discard(arrival);
    sim::nccl::release(group.issues);
  }
  group.error = ncclSuccess;
  group.issues.clear();
  group.arrivals.clear();
  return result;
}
