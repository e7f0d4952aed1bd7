// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/replica_graph.h"

#include <algorithm>

#include "runtime/parallel/placement.h"

namespace fanout::detail {

ReplicaGraph::ReplicaGraph(std::shared_ptr<BucketOwner> owner) : owner_(std::move(owner)) {
  ReplicaSet& set = *owner_->set;
  roles_.push_back(role(set.parameters(), set.visited_parameters()));
  roles_.push_back(role(set.buffers(), set.visited_buffers()));
}

ReplicaGraph::~ReplicaGraph() {
  if (!owner_ || !entered_) return;  // moved from, or replicas alone
  for (const Role& role : roles_) {
    for (const Tensor& original : role.tensors->originals()) {
      original.body().producer = nullptr;
      original.body().slot = 0;
    }
  }
}

ReplicaGraph::Role ReplicaGraph::role(FlatReplicas& tensors, const std::vector<VisitedTensor>& visited) const {
  Role made{&tensors, &visited, {}};
  if (!grad_enabled()) return made;
  const auto requires_gradient = [&](std::size_t index) { return tensors.originals()[index].requires_grad(); };
  for (std::size_t number = 0; number < tensors.buckets().size(); ++number) {
    const Bucket& bucket = tensors.buckets()[number];
    Intrusive<GradientBucket> node;
    if (std::any_of(bucket.tensors.begin(), bucket.tensors.end(), requires_gradient)) {
      tensors.make_gradients();
      node = make_intrusive<GradientBucket>(owner_, tensors, number);
    }
    made.buckets.push_back(std::move(node));
  }
  return made;
}

void ReplicaGraph::enter_primary() {
  entered_ = true;
  for (const Role& role : roles_) {
    if (role.buckets.empty()) continue;
    for (std::size_t index = 0; index < role.tensors->originals().size(); ++index) {
      const auto [bucket, j] = role.tensors->place_in_buckets(index);
      if (role.buckets[bucket]) role.buckets[bucket]->make_output(role.tensors->originals()[index], 0, j);
    }
  }
}

Tensor ReplicaGraph::bound(const Role& role, std::size_t m, std::size_t index) const {
  const Tensor& kept = role.tensors->tensor(owner_->members[m], index);
  if (role.buckets.empty()) return kept;
  const auto [bucket, j] = role.tensors->place_in_buckets(index);
  if (!role.buckets[bucket]) return kept;
  const Tensor handle = kept.detach();
  role.buckets[bucket]->make_output(handle, m, j);
  return handle;
}

void ReplicaGraph::bind(const ModuleView& copy, std::size_t m) const {
  struct Binding final : Visitor {
    Binding(const ReplicaGraph& owner, std::size_t rank) : graph(owner), m(rank) {
      for (std::size_t i = 0; i < 2; ++i) handles[i].resize(graph.roles_[i].tensors->originals().size());
    }
    void parameter(Parameter& member) override { point(member, 0); }
    void buffer(Buffer& member) override { point(member, 1); }
    void point(Tensor& member, std::size_t which) {
      const Role& role = graph.roles_[which];
      const std::size_t index = (*role.visited)[seen[which]++].index;
      Tensor& handle = handles[which][index];
      if (!handle.defined()) handle = graph.bound(role, m, index);
      member = handle;
    }
    const ReplicaGraph& graph;
    std::size_t m, seen[2] = {0, 0};
    std::vector<Tensor> handles[2];  // members that share a tensor share it in the replica
  } visitor(*this, m);
  copy.walk(visitor);
}

}  // namespace fanout::detail

namespace fanout {

void detail::make_replicas(const ModuleView& module, const std::vector<ModuleView>& copies,
                           const std::vector<Device>& devices, bool detach) {
  std::vector<int> ids;
  for (const Device device : devices) ids.push_back(device.index());
  if (devices.empty()) return;
  (void)devices_of_ids(ids);
  const auto misplaced = [&](const Tensor& tensor) { return tensor.device() != devices[0]; };
  const std::vector<Tensor> trained = parameters(module), kept = buffers(module);
  if (std::any_of(trained.begin(), trained.end(), misplaced) || std::any_of(kept.begin(), kept.end(), misplaced)) {
    throw_misplaced(module, devices);
  }
  auto owner = std::make_shared<BucketOwner>();
  owner->set = std::make_shared<ReplicaSet>(module, devices, std::size_t{1} << 20);
  for (std::size_t member = 0; member < devices.size(); ++member) owner->members.push_back(member);
  owner->communicator = &owner->set->communicator(owner->members);
  owner->set->send_changes(owner->members);
  owner->lanes = static_cast<int>(devices.size());
  const GradMode mode(grad_enabled() && !detach);
  const ReplicaGraph graph(std::move(owner));
  for (std::size_t m = 0; m < copies.size(); ++m) graph.bind(copies[m], m);
}

}  // namespace fanout
