// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/data_parallel.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/device/workers.h"
#include "runtime/nn/move.h"
#include "runtime/ops/shape.h"
#include "runtime/parallel/chunk.h"
#include "runtime/parallel/gather.h"
#include "runtime/parallel/placement.h"

namespace fanout::detail {
namespace {

// The chunk sizes of each input along the split dimension; all inputs must agree in it.
std::vector<std::int64_t> sizes_for(const std::vector<Tensor>& inputs, int dim, int devices) {
  std::int64_t rows = -1;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = inputs[i];
    if (!input.defined()) throw InvalidArgument(fmt::format("scatter: tensor {} among the inputs is undefined", i));
    if (input.rank() == 0) {
      throw InvalidArgument(
          fmt::format("scatter: tensor {} among the inputs has no dimension to split; pass a plain number", i));
    }
    const std::int64_t size = input.shape()[input.shape().normalize(dim)];
    if (rows < 0) rows = size;
    if (size != rows) {
      throw InvalidArgument(
          fmt::format("scatter: tensor 0 among the inputs has shape {} and tensor {} has shape {}; both are split "
                      "along dimension {} and must "
                      "have the same size there",
                      inputs[0].shape().text(), i, input.shape().text(), dim));
    }
  }
  return chunk_sizes(rows, devices);
}

void leave_graph(const Tensor& tensor) {
  tensor.body().producer = nullptr;
  tensor.body().slot = 0;
}

}  // namespace

DataParallelCore::DataParallelCore(const ModuleView& module, const std::vector<int>& device_ids,
                                   const DataParallelOptions& options)
    : devices_(devices_of_ids(device_ids)),
      options_(options),
      lanes_(std::make_shared<LaneChooser>(
          options.parallel_apply,
          devices_.size() == 1 ? 1 : std::min(Workers::of_process().lanes(), static_cast<int>(devices_.size())))) {
  if (options_.output_device) require_device(*options_.output_device);
  if (!options_.check_at_construction) return;
  const auto on_wrong_device = [&](const Tensor& tensor) {
    return !tensor.device().is_host() && tensor.device() != devices_[0];
  };
  const std::vector<Tensor> parameter_list = parameters(module), buffer_list = buffers(module);
  if (std::any_of(parameter_list.begin(), parameter_list.end(), on_wrong_device) ||
      std::any_of(buffer_list.begin(), buffer_list.end(), on_wrong_device)) {
    throw_misplaced(module, devices_);
  }
}

// One pass over the module at every forward: are the tensors where they must be, and those that `set_` was made for?
void DataParallelCore::check(const ModuleView& module) {
  struct Pass final : Visitor {
    explicit Pass(const DataParallelCore& owner) : core(owner) {}
    void parameter(Parameter& member) override { look(member, core.parameters_, parameters); }
    void buffer(Buffer& member) override { look(member, core.buffers_, buffers); }
    void look(const Tensor& member, const std::vector<Visited>& known, std::size_t& count) {
      misplaced = misplaced || member.device() != core.devices_[0];
      same = same && count < known.size() && known[count].body == &member.body() &&
             known[count].data == member.body().data;
      ++count;
    }
    const DataParallelCore& core;
    bool misplaced = false, same = true;
    std::size_t parameters = 0, buffers = 0;
  } pass(*this);
  module.walk(pass);
  if (pass.misplaced) throw_misplaced(module, devices_);
  const bool known = set_ && pass.same && pass.parameters == parameters_.size() && pass.buffers == buffers_.size();
  if (!known && devices_.size() > 1) renew(module);
}

void DataParallelCore::renew(const ModuleView& module) {
  flatten(module);
  set_ = std::make_shared<ReplicaSet>(parameters(module), buffers(module), devices_, options_.bucket_bytes);
  struct Pass final : Visitor {
    explicit Pass(DataParallelCore& owner) : core(owner) {}
    void parameter(Parameter& member) override { note(member, core.set_->parameters, core.parameters_); }
    void buffer(Buffer& member) override { note(member, core.set_->buffers, core.buffers_); }
    static void note(const Tensor& member, const FlatReplicas& replicas, std::vector<Visited>& visited) {
      const std::vector<Tensor>& all = replicas.originals();
      const auto same = [&](const Tensor& tensor) { return &tensor.body() == &member.body(); };
      const auto index = static_cast<std::size_t>(std::find_if(all.begin(), all.end(), same) - all.begin());
      visited.push_back({&member.body(), member.body().data, index});
    }
    DataParallelCore& core;
  } pass(*this);
  parameters_.clear();
  buffers_.clear();
  module.walk(pass);
}

ReplicatedForward DataParallelCore::begin(const ModuleView& module, const std::vector<Tensor>& inputs) {
  check(module);
  const auto devices = static_cast<int>(devices_.size());
  const std::vector<std::int64_t> sizes =
      inputs.empty() ? std::vector<std::int64_t>{0} : sizes_for(inputs, options_.dim, devices);
  ReplicatedForward forward(*this, sizes.size());
  for (const Tensor& input : inputs) {
    forward.inputs_.emplace_back(input, input.shape().normalize(options_.dim), sizes, devices_);
  }
  forward.lanes_ = lanes_->begin_step(sizes[0], static_cast<int>(sizes.size()), grad_enabled());
  if (sizes.size() > 1) {
    const std::size_t replicas = sizes.size();
    Communicator& communicator = set_->communicator(replicas);
    const std::size_t sent =
        set_->parameters.send_changes(replicas, communicator) + set_->buffers.send_changes(replicas, communicator);
    if (sent > 0) communicator.wait_for_collectives();
    if (grad_enabled()) forward.make_buckets();
  }
  return forward;
}

std::vector<Tensor> DataParallelCore::gather_outputs(const std::vector<std::vector<Tensor>>& outputs) const {
  for (std::size_t replica = 1; replica < outputs.size(); ++replica) {
    if (outputs[replica].size() == outputs[0].size()) continue;
    throw InvalidArgument(fmt::format(
        "gather: replica 0 on {} returned {} tensors, replica {} on {} returned {}; all must return the same",
        devices_[0].name(), outputs[0].size(), replica, devices_[replica].name(), outputs[replica].size()));
  }
  std::vector<Tensor> joined;
  for (std::size_t number = 0; number < outputs[0].size(); ++number) {
    std::vector<Tensor> parts;
    for (const std::vector<Tensor>& replica : outputs) parts.push_back(replica[number]);
    const std::string what = outputs[0].size() == 1 ? "output" : fmt::format("output {}", number);
    joined.push_back(parts.size() == 1 ? to(parts[0], output_device())
                                       : gather(parts, options_.dim, output_device(), what));
  }
  return joined;
}

ReplicatedForward::~ReplicatedForward() {
  if (buckets_.empty()) return;  // moved from, or without graph
  for (const Tensor& parameter : core_->set_->parameters.originals()) leave_graph(parameter);
}

void ReplicatedForward::make_buckets() {
  ReplicaSet& set = *core_->set_;
  const std::vector<Tensor>& originals = set.parameters.originals();
  if (std::none_of(originals.begin(), originals.end(), [](const Tensor& tensor) { return tensor.requires_grad(); }))
    return;
  auto owner = std::make_shared<BucketOwner>();
  owner->set = core_->set_;
  owner->replicas = replicas_;
  owner->communicator = &set.communicator(replicas_);
  owner->lanes = lanes_;
  owner->backward_took = [chooser = core_->lanes_](double seconds) { chooser->add(seconds); };
  for (std::size_t bucket = 0; bucket < set.buckets.size(); ++bucket) {
    buckets_.push_back(make_intrusive<GradientBucket>(owner, bucket));
  }
  for (std::size_t index = 0; index < originals.size(); ++index) {
    const auto [bucket, j] = set.place_in_buckets[index];
    buckets_[bucket]->make_output(originals[index], 0, j);
  }
}

void ReplicatedForward::bind(const ModuleView& copy, std::size_t replica) {
  struct Pass final : Visitor {
    Pass(ReplicatedForward& owner, std::size_t number)
        : forward(owner), core(*owner.core_), replica(number), handles(core.set_->parameters.originals().size()) {}
    void parameter(Parameter& member) override {
      const std::size_t index = core.parameters_[parameters++].index;
      Tensor& handle = handles[index];
      if (!handle.defined()) handle = in_graph(index);
      static_cast<Tensor&>(member) = handle;
    }
    void buffer(Buffer& member) override {
      static_cast<Tensor&>(member) = core.set_->buffers.tensor(replica, core.buffers_[buffers++].index);
    }
    Tensor in_graph(std::size_t index) {
      const Tensor& kept = core.set_->parameters.tensor(replica, index);
      if (forward.buckets_.empty()) return kept;
      const Tensor handle = kept.detach();
      const auto [bucket, j] = core.set_->place_in_buckets[index];
      forward.buckets_[bucket]->make_output(handle, replica, j);
      return handle;
    }
    ReplicatedForward& forward;
    DataParallelCore& core;
    std::size_t replica;
    std::vector<Tensor> handles;
    std::size_t parameters = 0, buffers = 0;
  } pass(*this, replica);
  copy.walk(pass);
}

void ReplicatedForward::run(const std::function<void(std::size_t)>& replica) {
  const auto start = std::chrono::steady_clock::now();
  parallel_apply(core_->devices_, replicas_, lanes_, replica);
  core_->lanes_->add(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}

}  // namespace fanout::detail
