// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/gradient_bucket.h"

#include <algorithm>

#include "runtime/autograd/accumulate.h"
#include "runtime/autograd/backward.h"
#include "runtime/device/context.h"
#include "runtime/ops/shape.h"
#include "runtime/tensor/copy.h"

namespace fanout {
namespace {

void clear(const Tensor& tensor) {
  if (tensor.bytes() == 0) return;
  const DeviceGuard guard(tensor.device());
  FANOUT_CHECK(cudaMemsetAsync(tensor.raw_data(), 0, tensor.bytes(), compute_stream(tensor.device()).handle));
}

}  // namespace

GradientBucket::GradientBucket(std::shared_ptr<BucketOwner> owner, std::size_t bucket)
    : Node(owner->set->devices[0], Shape{}, owner->set->buckets[bucket].dtype),
      owner_(std::move(owner)),
      bucket_(owner_->set->buckets[bucket]),
      written_(owner_->replicas * width()) {
  for (const std::size_t index : bucket_.parameters) {
    const Tensor& parameter = owner_->set->parameters.originals()[index];
    sinks_.push_back(parameter.requires_grad() ? &gradient_sink(parameter) : nullptr);
    add_input(parameter);
  }
}

void GradientBucket::make_output(const Tensor& tensor, std::size_t replica, std::size_t j) {
  if (sinks_[j] != nullptr) attach(tensor, Intrusive<Node>(this), static_cast<int>(replica * width() + j));
}

int GradientBucket::lane_of(Device device) const {
  const std::vector<Device>& devices = owner_->set->devices;
  for (std::size_t replica = 0; replica < devices.size(); ++replica) {
    if (devices[replica] == device) return static_cast<int>(replica);
  }
  return 0;
}

void GradientBucket::begin() {
  Node::begin();
  std::fill(written_.begin(), written_.end(), std::uint8_t{0});
  with_graph_.clear();
  own_.clear();
  owner_->finishing = false;
}

void GradientBucket::prepare(BackwardPass& pass) {
  for (const GradientSink* sink : sinks_) {
    if (sink != nullptr) sink->require_on(device());
  }
  if (!owner_->finishing) {
    owner_->finishing = true;
    owner_->began = std::chrono::steady_clock::now();
    pass.finish_later(*this);
  }
  if (pass.create_graph()) {
    with_graph_.assign(written_.size(), Tensor());
    return;
  }
  // Replica 0 may write to the primary's gradient if that lies in a flat buffer of this layout, and nobody else writes
  // there.
  const FlatLayout& layout = owner_->set->parameters.layout();
  const char* base = nullptr;
  direct_ = true;
  for (std::size_t j = 0; j < width(); ++j) {
    if (sinks_[j] == nullptr) {
      direct_ = false;
      break;
    }
    const char* start = sinks_[j]->place().body().data - layout.offset(bucket_.parameters[j]);
    direct_ = direct_ && sinks_[j]->expected_in_pass() == 1 && (base == nullptr || start == base);
    base = start;
  }
  if (direct_) return;
  for (std::size_t replica = 0; replica < owner_->replicas; ++replica) {
    own_.push_back(Storage::allocate(owner_->set->devices[replica], bucket_.end_bytes - bucket_.begin_bytes));
    clear(over_storage(own_.back(), 0, Shape{static_cast<std::int64_t>(own_.back()->bytes())}, DType::u8));
  }
}

Tensor GradientBucket::place_of(std::size_t replica, std::size_t j) {
  const std::size_t index = bucket_.parameters[j];
  if (direct_) return replica == 0 ? sinks_[j]->place() : owner_->set->gradient_tensors[replica - 1][index];
  const std::size_t offset = owner_->set->parameters.layout().offset(index) - bucket_.begin_bytes;
  return over_storage(own_[replica], offset, owner_->set->parameters.originals()[index].shape(), bucket_.dtype);
}

Destination GradientBucket::destination(int slot) {
  const auto place = static_cast<std::size_t>(slot);
  const std::size_t replica = place / width(), j = place % width();
  const bool adds_to_primary = direct_ && replica == 0 && sinks_[j]->present();
  const bool accumulate = written_[place] != 0 || adds_to_primary;
  written_[place] = 1;
  return {place_of(replica, j), accumulate};
}

void GradientBucket::give(int slot, Tensor gradient, bool create_graph) {
  if (create_graph) {
    Tensor& kept = with_graph_[static_cast<std::size_t>(slot)];
    kept = kept.defined() ? add(kept, gradient) : std::move(gradient);
    return;
  }
  const Destination to = destination(slot);
  if (to.accumulate) {
    add_in_place(to.place, contiguous_copy(gradient));
  } else {
    copy(to.place, gradient);
  }
}

bool GradientBucket::used_anywhere(std::size_t j) const {
  for (std::size_t replica = 0; replica < owner_->replicas; ++replica) {
    if (written_[replica * width() + j] != 0) return true;
  }
  return false;
}

// A replica that did not use a parameter contributes zero to its sum, whatever its buffer held before.
void GradientBucket::clear_unwritten() {
  for (std::size_t j = 0; j < width(); ++j) {
    for (std::size_t replica = 0; replica < owner_->replicas; ++replica) {
      if (written_[replica * width() + j] != 0) continue;
      const bool keep = replica == 0 && (sinks_[j]->present() || !used_anywhere(j));
      if (!keep) clear(place_of(replica, j));
    }
  }
}

void GradientBucket::reduce_buffers() {
  const void* buffers[kMaxDevices];
  for (std::size_t replica = 0; replica < owner_->replicas; ++replica) {
    if (!direct_) {
      buffers[replica] = own_[replica]->pointer();
    } else if (replica == 0) {
      buffers[replica] = sinks_.front()->place().raw_data();
    } else {
      buffers[replica] = static_cast<char*>(owner_->set->gradients[replica - 1]->pointer()) + bucket_.begin_bytes;
    }
  }
  const auto elements = static_cast<std::int64_t>((bucket_.end_bytes - bucket_.begin_bytes) / size_of(bucket_.dtype));
  owner_->communicator->reduce({buffers, owner_->replicas}, const_cast<void*>(buffers[0]), elements, bucket_.dtype);
}

void GradientBucket::backward(BackwardPass& pass) {
  if (direct_) clear_unwritten();
  reduce_buffers();
  if (!direct_) owner_->communicator->wait_for_collectives();
  for (std::size_t j = 0; j < width(); ++j) {
    if (sinks_[j] == nullptr || !used_anywhere(j)) continue;
    if (direct_) {
      sinks_[j]->set_present();
      pass.arrived(*this, j);
    } else {
      pass.give(*this, j, place_of(0, j));
    }
  }
  own_.clear();
}

std::vector<Tensor> GradientBucket::differentiate(const Tensor&) {
  std::vector<Tensor> sums(width());
  for (std::size_t slot = 0; slot < with_graph_.size(); ++slot) {
    if (!with_graph_[slot].defined()) continue;
    const Tensor here = to(with_graph_[slot], device());
    Tensor& sum = sums[slot % width()];
    sum = sum.defined() ? add(sum, here) : here;
  }
  with_graph_.assign(with_graph_.size(), Tensor());
  return sums;
}

void GradientBucket::finish() {
  owner_->communicator->wait_for_collectives();
  owner_->finishing = false;
  if (owner_->backward_took) {
    owner_->backward_took(std::chrono::duration<double>(std::chrono::steady_clock::now() - owner_->began).count());
  }
}

}  // namespace fanout
