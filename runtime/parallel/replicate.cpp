// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/replicate.h"

#include <algorithm>

#include "runtime/nn/move.h"
#include "runtime/parallel/gradient_exchange.h"

namespace fanout {

std::vector<Bucket> cut_into_buckets(const FlatLayout& layout, const std::vector<Tensor>& tensors,
                                     std::size_t bucket_bytes) {
  std::vector<Bucket> buckets;
  for (const std::size_t index : layout.order()) {
    const bool closed = buckets.empty() || buckets.back().dtype != tensors[index].dtype() ||
                        buckets.back().end_bytes - buckets.back().begin_bytes >= bucket_bytes;
    if (closed) buckets.push_back({layout.offset(index), layout.offset(index), tensors[index].dtype(), {}});
    buckets.back().tensors.push_back(index);
    buckets.back().end_bytes = layout.end(index);
  }
  return buckets;
}

FlatReplicas::FlatReplicas(std::vector<Tensor> originals, const std::vector<Device>& devices, std::size_t bucket_bytes)
    : originals_(std::move(originals)),
      layout_(originals_),
      buckets_(cut_into_buckets(layout_, originals_, bucket_bytes)),
      places_(originals_.size()) {
  for (std::size_t replica = 1; replica < devices.size(); ++replica) {
    Copy copy{devices[replica], Storage::allocate(devices[replica], layout_.bytes()), {}, {}, {}, {}, {}};
    for (std::size_t index = 0; index < originals_.size(); ++index) {
      copy.tensors.push_back(layout_.part(copy.buffer, index, originals_[index]));
      copy.sent.push_back(originals_[index].version() - 1);  // nothing was sent yet
      copy.received.push_back(copy.tensors.back().version());
    }
    copies_.push_back(std::move(copy));
  }
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    for (std::size_t j = 0; j < buckets_[bucket].tensors.size(); ++j) {
      places_[buckets_[bucket].tensors[j]] = {bucket, j};
    }
  }
}

bool FlatReplicas::was_written(std::size_t replica, std::size_t index) const {
  const Copy& copy = copies_[replica - 1];
  return copy.tensors[index].version() != copy.received[index];
}

bool FlatReplicas::is_stale(const Members& members, std::size_t index) const {
  const std::uint32_t version = originals_[index].version();
  return std::any_of(members.begin() + 1, members.end(), [&](std::size_t replica) {
    return copies_[replica - 1].sent[index] != version || was_written(replica, index);
  });
}

void FlatReplicas::note_sent(const Members& members, std::size_t index) {
  for (std::size_t i = 1; i < members.size(); ++i) {
    Copy& copy = copies_[members[i] - 1];
    copy.tensors[index].count_write();
    copy.sent[index] = originals_[index].version();
    copy.received[index] = copy.tensors[index].version();
  }
}

void FlatReplicas::send(const Members& members, std::size_t begin, std::size_t end, Communicator& communicator,
                        Behind behind) {
  void* places[kMaxDevices];
  const std::size_t first = layout_.order().front();
  places[0] = originals_[first].body().data - layout_.offset(first) + begin;
  for (std::size_t rank = 1; rank < members.size(); ++rank) {
    places[rank] = static_cast<char*>(copies_[members[rank] - 1].buffer->pointer()) + begin;
  }
  communicator.broadcast({places, members.size()}, end - begin, behind);
}

void FlatReplicas::note_sent(const Members& members, std::size_t begin, std::size_t end) {
  for (std::size_t index = 0; index < layout_.count(); ++index) {
    if (begin <= layout_.offset(index) && layout_.offset(index) < end) note_sent(members, index);
  }
}

Event& FlatReplicas::event(std::size_t number) {
  while (events_.size() <= number) events_.push_back(std::make_unique<Event>(originals_.front().device()));
  return *events_[number];
}

std::size_t FlatReplicas::send_changes(const Members& members, Communicator& communicator) {
  std::size_t sent_bytes = 0, begin = 0, end = 0;
  const auto send_range = [&] {
    if (begin == end) return;
    send(members, begin, end, communicator);
    sent_bytes += (end - begin) * (members.size() - 1);
    begin = end;
  };
  for (const std::size_t index : layout_.order()) {
    if (!is_stale(members, index)) {
      send_range();
      begin = end = layout_.end(index);
      continue;
    }
    end = layout_.end(index);
    note_sent(members, index);
  }
  send_range();
  return sent_bytes;
}

void FlatReplicas::make_gradients() {
  for (Copy& copy : copies_) {
    if (copy.gradients) continue;
    copy.gradients = zeroed_buffer(layout_, copy.device);
    for (std::size_t index = 0; index < layout_.count(); ++index) {
      copy.gradient_tensors.push_back(layout_.part(copy.gradients, index, originals_[index]));
    }
  }
}

ReplicaSet::ReplicaSet(ModuleView module, std::vector<Device> device_list, std::size_t bucket_bytes)
    : devices_(std::move(device_list)),
      parameters_((flatten(module), fanout::parameters(module)), devices_, bucket_bytes),
      buffers_(fanout::buffers(module), devices_, bucket_bytes) {
  struct Listing final : Visitor {
    explicit Listing(ReplicaSet& set) : owner(set) {}
    void parameter(Parameter& member) override { note(member, owner.parameters_, owner.visited_parameters_); }
    void buffer(Buffer& member) override { note(member, owner.buffers_, owner.visited_buffers_); }
    static void note(const Tensor& member, const FlatReplicas& replicas, std::vector<VisitedTensor>& visited) {
      const std::vector<Tensor>& all = replicas.originals();
      const auto same = [&](const Tensor& tensor) { return &tensor.body() == &member.body(); };
      const auto index = static_cast<std::size_t>(std::find_if(all.begin(), all.end(), same) - all.begin());
      visited.push_back({&member.body(), member.body().data, index});
    }
    ReplicaSet& owner;
  } visitor(*this);
  module.walk(visitor);
  exchange_ = make_intrusive<GradientExchange>(*this);
}

ReplicaSet::~ReplicaSet() {
  exchange_->leave();
}

void ReplicaSet::send_changes(const Members& members) {
  Communicator& among = communicator(members);
  const std::size_t sent = parameters_.send_changes(members, among) + buffers_.send_changes(members, among);
  if (sent > 0) among.wait_for_collectives();
}

Communicator& ReplicaSet::communicator(const Members& members, int channel) {
  for (const Known& known : communicators_) {
    if (known.channel == channel && known.members == members) return *known.communicator;
  }
  std::vector<Device> list;
  for (const std::size_t member : members) list.push_back(devices_[member]);
  communicators_.push_back({members, channel, &Communicator::of(list, channel)});
  return *communicators_.back().communicator;
}

}  // namespace fanout
