// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/replicate.h"

#include <utility>

namespace fanout {

std::vector<Bucket> cut_into_buckets(const FlatLayout& layout, const std::vector<Tensor>& parameters,
                                     std::size_t bucket_bytes) {
  std::vector<Bucket> buckets;
  for (const std::size_t index : layout.order()) {
    const bool closed = buckets.empty() || buckets.back().dtype != parameters[index].dtype() ||
                        buckets.back().end_bytes - buckets.back().begin_bytes >= bucket_bytes;
    if (closed) buckets.push_back({layout.offset(index), layout.offset(index), parameters[index].dtype(), {}});
    buckets.back().parameters.push_back(index);
    buckets.back().end_bytes = layout.end(index);
  }
  return buckets;
}

FlatReplicas::FlatReplicas(std::vector<Tensor> originals, const std::vector<Device>& devices)
    : originals_(std::move(originals)), layout_(originals_) {
  for (std::size_t replica = 1; replica < devices.size(); ++replica) {
    Copy copy;
    copy.buffer = Storage::allocate(devices[replica], layout_.bytes());
    for (std::size_t index = 0; index < originals_.size(); ++index) {
      copy.tensors.push_back(layout_.part(copy.buffer, index, originals_[index]));
      copy.sent.push_back(originals_[index].version() - 1);  // nothing was sent yet
    }
    copies_.push_back(std::move(copy));
  }
}

bool FlatReplicas::is_stale(std::size_t replicas, std::size_t index) const {
  const std::uint32_t version = originals_[index].version();
  for (std::size_t replica = 1; replica < replicas; ++replica) {
    if (copies_[replica - 1].sent[index] != version) return true;
  }
  return false;
}

void FlatReplicas::send(std::size_t replicas, std::size_t begin, std::size_t end, Communicator& communicator) {
  void* places[kMaxDevices];
  const std::size_t first = layout_.order().front();
  places[0] = originals_[first].body().data - layout_.offset(first) + begin;
  for (std::size_t replica = 1; replica < replicas; ++replica) {
    places[replica] = static_cast<char*>(copies_[replica - 1].buffer->pointer()) + begin;
  }
  communicator.broadcast({places, replicas}, end - begin);
}

std::size_t FlatReplicas::send_changes(std::size_t replicas, Communicator& communicator) {
  std::size_t sent_bytes = 0, begin = 0, end = 0;
  const auto send_range = [&] {
    if (begin == end) return;
    send(replicas, begin, end, communicator);
    sent_bytes += (end - begin) * (replicas - 1);
    begin = end;
  };
  for (const std::size_t index : layout_.order()) {
    if (!is_stale(replicas, index)) {
      send_range();
      begin = end = layout_.end(index);
      continue;
    }
    end = layout_.end(index);
    for (std::size_t replica = 1; replica < replicas; ++replica) {
      Copy& copy = copies_[replica - 1];
      copy.sent[index] = originals_[index].version();
      copy.tensors[index].count_write();
    }
  }
  send_range();
  return sent_bytes;
}

ReplicaSet::ReplicaSet(std::vector<Tensor> parameter_list, std::vector<Tensor> buffer_list,
                       std::vector<Device> device_list, std::size_t bucket_bytes)
    : devices(std::move(device_list)),
      parameters(std::move(parameter_list), devices),
      buffers(std::move(buffer_list), devices),
      buckets(cut_into_buckets(parameters.layout(), parameters.originals(), bucket_bytes)) {
  place_in_buckets.resize(parameters.layout().count());
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    for (std::size_t j = 0; j < buckets[bucket].parameters.size(); ++j) {
      place_in_buckets[buckets[bucket].parameters[j]] = {bucket, j};
    }
  }
  for (std::size_t replica = 1; replica < devices.size(); ++replica) {
    gradients.push_back(zeroed_buffer(parameters.layout(), devices[replica]));
    std::vector<Tensor> parts;
    for (std::size_t index = 0; index < parameters.layout().count(); ++index) {
      parts.push_back(parameters.layout().part(gradients.back(), index, parameters.originals()[index]));
    }
    gradient_tensors.push_back(std::move(parts));
  }
}

Communicator& ReplicaSet::communicator(std::size_t replicas) const {
  return Communicator::of({devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(replicas)});
}

}  // namespace fanout
