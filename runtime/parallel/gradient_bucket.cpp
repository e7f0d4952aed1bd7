// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/gradient_bucket.h"

#include <algorithm>
#include <utility>

#include "runtime/autograd/accumulate.h"
#include "runtime/autograd/backward.h"
#include "runtime/ops/operands.h"
#include "runtime/ops/shape.h"
#include "runtime/parallel/gradient_exchange.h"
#include "runtime/tensor/copy.h"
#include "runtime/trace/stages.h"

namespace fanout {

GradientBucket::GradientBucket(std::shared_ptr<BucketOwner> owner, FlatReplicas& role, std::size_t bucket)
    : Node(owner->set->devices()[0], Shape{}, role.buckets()[bucket].dtype),
      owner_(std::move(owner)),
      role_(role),
      bucket_(role.buckets()[bucket]),
      written_(ranks() * width()),
      sparse_(written_.size()),
      is_left_(width()) {
  shared_by_replicas = true;
  for (const std::size_t index : bucket_.tensors) {
    const Tensor& original = role_.originals()[index];
    sinks_.push_back(original.requires_grad() ? &gradient_sink(original) : nullptr);
    add_input(original);
  }
}

void GradientBucket::make_output(const Tensor& tensor, std::size_t m, std::size_t j) {
  if (sinks_[j] != nullptr) attach(tensor, Intrusive<Node>(this), static_cast<int>(m * width() + j));
}

int GradientBucket::lane_of(Device device) const {
  for (std::size_t m = 0; m < ranks(); ++m) {
    if (owner_->set->devices()[owner_->members[m]] == device) return static_cast<int>(m);
  }
  return 0;
}

void GradientBucket::begin() {
  Node::begin();
  std::fill(written_.begin(), written_.end(), std::uint8_t{0});
  with_graph_.clear();
  for (std::vector<SparseRows>& rows : sparse_) rows.clear();
  own_.clear();
  owner_->waits = owner_->finishing = false;
}

void GradientBucket::prepare(BackwardPass& pass) {
  for (const GradientSink* sink : sinks_) {
    if (sink != nullptr) sink->require_on(device());
  }
  if (!owner_->finishing) {
    owner_->finishing = true;
    owner_->began = std::chrono::steady_clock::now();
    owner_->set->exchange()->begin(*owner_);
    pass.finish_later(*this);
  }
  if (pass.create_graph()) {
    with_graph_.assign(written_.size(), Tensor());
    return;
  }
  direct_ = may_write_in_place(pass);
  if (direct_) return;
  for (const std::size_t member : owner_->members) {
    own_.push_back(Storage::allocate(owner_->set->devices()[member], bucket_.end_bytes - bucket_.begin_bytes));
    set_zero(over_storage(own_.back(), 0, Shape{static_cast<std::int64_t>(own_.back()->bytes())}, DType::u8));
  }
}

// The primary's replica may write to the primary's gradients if these lie in a flat buffer of this layout, and nobody
// else writes there.
bool GradientBucket::may_write_in_place(const BackwardPass& pass) const {
  for (std::size_t slot = 0; slot < written_.size(); ++slot) {
    if (has_hooks(static_cast<int>(slot))) return false;
  }
  const char* base = nullptr;
  for (std::size_t j = 0; j < width(); ++j) {
    if (sinks_[j] == nullptr) continue;
    if (!pass.writes_directly(*sinks_[j]) || sinks_[j]->expected_in_pass() != 1) return false;
    const Tensor& place = sinks_[j]->place();
    if (width() > 1 && place.is_exclusive()) return false;  // memory of its own
    const char* start = place.body().data - role_.layout().offset(bucket_.tensors[j]);
    if (base != nullptr && start != base) return false;
    base = start;
  }
  return true;
}

Tensor GradientBucket::place_of(std::size_t m, std::size_t j) {
  const std::size_t index = bucket_.tensors[j];
  if (direct_) return m == 0 ? sinks_[j]->place() : role_.gradient(owner_->members[m], index);
  const std::size_t offset = role_.layout().offset(index) - bucket_.begin_bytes;
  return over_storage(own_[m], offset, role_.originals()[index].shape(), bucket_.dtype);
}

Destination GradientBucket::destination(int slot) {
  const auto place = static_cast<std::size_t>(slot);
  const std::size_t m = place / width(), j = place % width();
  const bool adds_to_primary = direct_ && m == 0 && sinks_[j]->present();
  const bool accumulate = written_[place] != 0 || adds_to_primary;
  written_[place] = 1;
  return {place_of(m, j), accumulate};
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

void GradientBucket::give_sparse(int slot, SparseRows rows, bool create_graph) {
  if (create_graph || has_hooks(slot)) return Node::give_sparse(slot, std::move(rows), create_graph);
  sparse_[static_cast<std::size_t>(slot)].push_back(std::move(rows));
}

bool GradientBucket::used_anywhere(std::size_t j) const {
  for (std::size_t m = 0; m < ranks(); ++m) {
    if (written_[m * width() + j] != 0) return true;
  }
  return false;
}

// The rows that all replicas gave for tensor j, in the order of the replicas, on the primary; they join the dense
// gradient where a replica has one.
std::vector<SparseRows> GradientBucket::take_sparse(std::size_t j) {
  const bool dense = used_anywhere(j);
  std::vector<SparseRows> parts;
  for (std::size_t m = 0; m < ranks(); ++m) {
    const std::size_t slot = m * width() + j;
    const std::vector<SparseRows> given = std::exchange(sparse_[slot], {});
    if (given.empty()) continue;
    if (!dense) {
      parts.push_back(copied_to(concatenated(given), device()));
      continue;
    }
    const Destination to = destination(static_cast<int>(slot));
    if (!to.accumulate) set_zero(to.place);
    for (const SparseRows& rows : given) add_rows(to.place, rows);
  }
  return parts;
}

void GradientBucket::apply_hooks_to(std::size_t j) {
  for (std::size_t m = 0; m < ranks(); ++m) {
    const std::size_t slot = m * width() + j;
    if (written_[slot] == 0 || !has_hooks(static_cast<int>(slot))) continue;
    const Tensor place = place_of(m, j);
    Tensor gradient = place;
    apply_hooks(static_cast<int>(slot), gradient);
    if (gradient.raw_data() != place.raw_data()) copy(place, gradient);
  }
}

// A replica that did not use a tensor contributes zero to its sum, whatever its buffer held before.
void GradientBucket::clear_unwritten(std::size_t j) {
  for (std::size_t m = 0; m < ranks(); ++m) {
    const bool holds_gradient = written_[m * width() + j] != 0 || (m == 0 && sinks_[j]->present());
    if (!holds_gradient) set_zero(place_of(m, j));
  }
}

// Gradients of parameters that lie in the shared buffers, and that nobody can look at without asking.
bool GradientBucket::leave_to_optimizer(std::size_t begin, std::size_t end) {
  if (!direct_ || &role_ != &owner_->set->parameters()) return false;
  for (std::size_t j = begin; j < end; ++j) {
    if (sinks_[j] == nullptr || sinks_[j]->place_is_shared()) return false;
  }
  const std::size_t last = bucket_.tensors[end - 1];
  return owner_->set->exchange()->add(role_.layout().offset(bucket_.tensors[begin]),
                                      role_.layout().offset(last) + role_.originals()[last].bytes(), bucket_.dtype,
                                      static_cast<char*>(sinks_[begin]->place().raw_data()));
}

// Sums tensors `begin` to `end` - 1, which lie one behind the other, to the primary's.
void GradientBucket::reduce(std::size_t begin, std::size_t end) {
  const FlatLayout& layout = role_.layout();
  const std::size_t last = bucket_.tensors[end - 1];
  const std::size_t bytes =
      layout.offset(last) + role_.originals()[last].bytes() - layout.offset(bucket_.tensors[begin]);
  const void* buffers[kMaxDevices];
  for (std::size_t m = 0; m < ranks(); ++m) buffers[m] = place_of(m, begin).raw_data();
  owner_->waits = true;
  owner_->communicator->reduce({buffers, ranks()}, const_cast<void*>(buffers[0]),
                               static_cast<std::int64_t>(bytes / size_of(bucket_.dtype)), bucket_.dtype);
}

void GradientBucket::backward(BackwardPass& pass) {
  const StageScope stage(device(), Stage::reduce);
  std::vector<std::vector<SparseRows>> sparse(width());
  std::size_t begin = 0;
  for (std::size_t j = 0; j <= width(); ++j) {
    if (j < width()) {
      sparse[j] = take_sparse(j);
      apply_hooks_to(j);
      if (used_anywhere(j)) {
        if (direct_) clear_unwritten(j);
        continue;
      }
    }
    if (begin < j) {
      const bool is_left = leave_to_optimizer(begin, j);
      std::fill(is_left_.begin() + static_cast<std::ptrdiff_t>(begin),
                is_left_.begin() + static_cast<std::ptrdiff_t>(j), std::uint8_t{is_left});
      if (!is_left) reduce(begin, j);
    }
    begin = j + 1;
  }
  if (!direct_) owner_->communicator->wait_for_collectives();
  for (std::size_t j = 0; j < width(); ++j) hand_over(pass, j, sparse[j]);
  own_.clear();
}

// Every contribution that was announced must arrive, also where no replica used the tensor.
void GradientBucket::hand_over(BackwardPass& pass, std::size_t j, const std::vector<SparseRows>& sparse) {
  if (sinks_[j] == nullptr || !needs_gradient(j)) return;
  if (!sparse.empty()) {
    pass.give_sparse(*this, j, concatenated(sparse));
  } else if (!used_anywhere(j)) {
    pass.arrived(*this, j);
  } else if (direct_) {
    if (is_left_[j] != 0) {
      sinks_[j]->set_pending(owner_->set->exchange());
    } else {
      sinks_[j]->set_present();
    }
    pass.arrived(*this, j);
  } else {
    pass.give(*this, j, place_of(0, j));
  }
}

std::vector<Tensor> GradientBucket::differentiate(const Tensor&) {
  std::vector<Tensor> sums(width());
  for (std::size_t slot = 0; slot < with_graph_.size(); ++slot) {
    if (!with_graph_[slot].defined()) continue;
    apply_hooks(static_cast<int>(slot), with_graph_[slot]);
    const Tensor here = to(with_graph_[slot], device());
    Tensor& sum = sums[slot % width()];
    sum = sum.defined() ? add(sum, here) : here;
  }
  with_graph_.assign(with_graph_.size(), Tensor());
  return sums;
}

void GradientBucket::finish() {
  const StageScope stage(device(), Stage::reduce);
  if (owner_->waits) owner_->communicator->wait_for_collectives();
  owner_->waits = owner_->finishing = false;
  if (owner_->took) {
    owner_->took(std::chrono::duration<double>(std::chrono::steady_clock::now() - owner_->began).count());
  }
}

}  // namespace fanout
