// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/data_parallel_core.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "runtime/device/workers.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/ops/reduce.h"
#include "runtime/ops/shape.h"
#include "runtime/parallel/chunk.h"
#include "runtime/parallel/placement.h"
#include "runtime/tensor/copy.h"

namespace fanout::detail {

DataParallelCore::DataParallelCore(const ModuleView& module, const std::vector<int>& device_ids,
                                   const DataParallelOptions& options)
    : devices_(devices_of_ids(device_ids)),
      options_(options),
      lanes_(std::make_shared<LaneChooser>(
          options.parallel_apply,
          devices_.size() == 1 ? 1 : std::min(Workers::of_process().lanes(), static_cast<int>(devices_.size())))) {
  check_options();
  (void)policies_for(named_buffers(module), options_.buffer_policies);
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

void DataParallelCore::check_options() const {
  if (options_.output_device && !options_.output_device->is_host()) require_device(*options_.output_device);
  const auto require_count = [&](const char* what, std::size_t count) {
    if (count == 0 || count == devices_.size()) return;
    throw InvalidArgument(fmt::format("{} has {} entries for {} devices ({}); give one for each", what, count,
                                      devices_.size(), names(devices_)));
  };
  require_count("chunk_sizes", options_.chunk_sizes.size());
  require_count("weights", options_.weights.size());
  if (!options_.chunk_sizes.empty() && !options_.weights.empty()) {
    throw InvalidArgument("chunk_sizes and weights are two ways to say the same; give one of them");
  }
  if (std::any_of(options_.chunk_sizes.begin(), options_.chunk_sizes.end(), [](auto size) { return size < 0; })) {
    throw InvalidArgument(fmt::format("chunk_sizes [{}]: none may be negative", fmt::join(options_.chunk_sizes, ", ")));
  }
  if (!options_.weights.empty()) (void)weighted_chunk_sizes(0, options_.weights);
}

// One pass over the module at every forward: are the tensors where they must be, and those that `set_` was made for?
void DataParallelCore::check(const ModuleView& module) {
  struct Pass final : Visitor {
    explicit Pass(const DataParallelCore& owner) : core(owner) {}
    void parameter(Parameter& member) override {
      look(member, core.set_ ? &core.set_->visited_parameters() : nullptr, parameters);
    }
    void buffer(Buffer& member) override { look(member, core.set_ ? &core.set_->visited_buffers() : nullptr, buffers); }
    void look(const Tensor& member, const std::vector<VisitedTensor>* known, std::size_t& count) {
      misplaced = misplaced || member.device() != core.devices_[0];
      same = same && known != nullptr && count < known->size() && (*known)[count].body == &member.body() &&
             (*known)[count].data == member.body().data;
      ++count;
    }
    const DataParallelCore& core;
    bool misplaced = false, same = true;
    std::size_t parameters = 0, buffers = 0;
  } pass(*this);
  module.walk(pass);
  if (pass.misplaced) throw_misplaced(module, devices_);
  const bool known = set_ && pass.same && pass.parameters == set_->visited_parameters().size() &&
                     pass.buffers == set_->visited_buffers().size();
  if (!known && devices_.size() > 1) renew(module);
}

void DataParallelCore::renew(const ModuleView& module) {
  set_ = std::make_shared<ReplicaSet>(module, devices_, options_.bucket_bytes);
  policies_.clear();
  if (options_.buffer_policies.empty()) return;
  policies_ = policies_for(named_buffers(module), options_.buffer_policies);
}

// Rows of every device; `path` names the tensor that has them.
std::vector<std::int64_t> DataParallelCore::rows_per_device(std::int64_t rows,
                                                            const std::function<std::string()>& path) const {
  if (!options_.weights.empty()) return weighted_chunk_sizes(rows, options_.weights);
  if (options_.chunk_sizes.empty()) {
    std::vector<std::int64_t> sizes = fanout::chunk_sizes(rows, static_cast<int>(devices_.size()));
    sizes.resize(devices_.size());
    return sizes;
  }
  const std::vector<std::int64_t>& sizes = options_.chunk_sizes;
  const std::int64_t sum = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  if (sum != rows) {
    throw InvalidArgument(fmt::format("scatter: chunk_sizes [{}] sum to {}, but {} has {} rows along dimension {}",
                                      fmt::join(sizes, ", "), sum, path(), rows, options_.dim));
  }
  return sizes;
}

std::shared_ptr<const DataParallelCore::Plan> DataParallelCore::plan(const std::vector<ScatteredInputs::Input>& inputs,
                                                                     const TensorWalk& walk, bool has_arguments) const {
  const std::int64_t rows = ScatteredInputs::rows_of(inputs, options_.dim, walk, "input");
  if (plan_ && plan_->split_rows == rows && plan_->has_arguments == has_arguments) return plan_;
  const auto first_split = [&] {
    const auto found = std::find_if(inputs.begin(), inputs.end(), [](const auto& input) { return !input.whole; });
    return path_of(walk, "input", static_cast<std::size_t>(found - inputs.begin()));
  };
  auto plan = std::make_shared<Plan>();
  plan->split_rows = rows;
  plan->has_arguments = has_arguments;
  plan->rows.resize(devices_.size());
  if (rows > 0) plan->rows = rows_per_device(rows, first_split);
  if (rows == 0 && !options_.chunk_sizes.empty()) plan->rows = rows_per_device(0, first_split);
  std::vector<Device> devices;
  std::vector<std::int64_t> sizes;
  const auto run_on = [&](std::size_t number) {
    plan->running.push_back({number, devices_[number]});
    devices.push_back(devices_[number]);
    sizes.push_back(plan->rows[number]);
  };
  for (std::size_t number = 0; number < devices_.size(); ++number) {
    const bool shares = options_.weights.empty() || options_.weights[number] > 0;
    const bool is_sized = options_.chunk_sizes.empty() || options_.chunk_sizes[number] > 0;
    // Without rows to share, all that could get some run; without arguments the primary does.
    const bool runs = rows > 0 ? plan->rows[number] > 0 : has_arguments ? shares && is_sized : number == 0;
    if (runs) run_on(number);
  }
  if (plan->running.empty()) run_on(0);  // chunk_sizes are all 0, and so is the batch
  plan->most_rows = *std::max_element(sizes.begin(), sizes.end());
  plan->pieces = std::make_shared<const Pieces>(std::move(sizes), std::move(devices));
  return plan_ = std::move(plan);
}

ReplicatedForward DataParallelCore::begin(const ModuleView& module, const TensorWalk& walk, bool has_arguments) {
  check(module);
  const std::vector<ScatteredInputs::Input> inputs = ScatteredInputs::collect(walk);
  const std::shared_ptr<const Plan> plan = this->plan(inputs, walk, has_arguments);
  rows_ = plan->rows;
  failures_.clear();
  ReplicatedForward forward;
  forward.core_ = this;
  forward.plan_ = plan;
  forward.inputs_ = ScatteredInputs(inputs, options_.dim, plan->pieces);
  const std::vector<RunningReplica>& replicas = plan->running;
  forward.lanes_ = lanes_->begin_step(plan->most_rows, static_cast<int>(replicas.size()), grad_enabled());
  const bool module_alone = replicas.size() == 1 && replicas[0].number == 0;
  if (module_alone) return forward;

  auto owner = std::make_shared<BucketOwner>();
  owner->set = set_;
  forward.idle_ranks_ = replicas[0].number == 0 ? 0 : 1;
  if (forward.idle_ranks_ == 1) owner->members.push_back(0);
  for (const RunningReplica& replica : replicas) owner->members.push_back(replica.number);
  {
    const StageScope stage(devices_[0], Stage::replicate);
    set_->send_changes(owner->members);
  }
  owner->communicator = &set_->communicator(owner->members);
  owner->lanes = forward.lanes_;
  owner->took = [chooser = lanes_](double seconds) { chooser->add(seconds); };
  forward.note_buffers();
  forward.graph_.emplace(std::move(owner));
  if (forward.idle_ranks_ == 0) forward.graph_->enter_primary();
  return forward;
}

std::pair<ScatteredInputs, std::size_t> DataParallelCore::split(const TensorWalk& walk) const {
  const std::vector<ScatteredInputs::Input> inputs = ScatteredInputs::collect(walk);
  const std::shared_ptr<const Plan> plan = this->plan(inputs, walk, true);
  return {ScatteredInputs(inputs, options_.dim, plan->pieces), plan->running.size()};
}

void DataParallelCore::join(const std::vector<TensorWalk>& outputs, const std::vector<OutputOrigin>& origins) const {
  const StageScope stage(output_device(), Stage::gather);
  if (devices_.size() > 1) return join_outputs(outputs, origins, options_.dim, output_device());
  struct Moving final : TensorVisitor {
    explicit Moving(Device where) : TensorVisitor("output"), device(where) {}
    void tensor(Tensor& output, bool) override {
      if (output.defined()) output = to(output, device);
    }
    Device device;
  } visitor(output_device());
  outputs[0](visitor);
}

Tensor DataParallelCore::mean_over_rows(const std::vector<Tensor>& means) const {
  std::vector<double> weights;
  const std::int64_t rows = std::accumulate(rows_.begin(), rows_.end(), std::int64_t{0});
  for (const std::int64_t size : rows_) {
    if (size > 0) weights.push_back(static_cast<double>(size) / static_cast<double>(rows));
  }
  if (means.size() != weights.size() || means.empty()) {
    throw InvalidArgument(fmt::format(
        "mean_over_rows: {} means for {} replicas with rows in the last forward (rows: [{}]); give one for each",
        means.size(), weights.size(), fmt::join(rows_, ", ")));
  }
  for (const Tensor& mean : means) {
    if (mean.defined() && mean.rank() == 0) continue;
    throw InvalidArgument(fmt::format("mean_over_rows: {} is no mean: its shape must be []", mean.text()));
  }
  Tensor sum;
  for (std::size_t i = 0; i < means.size(); ++i) {
    const Tensor part = to(means[i], devices_[0]) * weights[i];
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

void ReplicatedForward::run(const std::function<void(std::size_t)>& replica) {
  const auto start = std::chrono::steady_clock::now();
  core_->failures_ = run_replicas(replicas(), lanes_, replica, [this](std::size_t i) { return inputs_.text(i); });
  core_->lanes_->add(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  if (!core_->failures_.empty()) throw_first(core_->failures_);
  if (!policy_buffers_.empty()) combine_buffers();
}

std::vector<OutputOrigin> ReplicatedForward::origins() const {
  std::vector<OutputOrigin> origins;
  for (const auto& [number, device] : replicas()) origins.push_back({number, device, core_->rows_[number]});
  return origins;
}

void ReplicatedForward::note_buffers() {
  for (std::size_t index = 0; index < core_->policies_.size(); ++index) {
    const BufferPolicy policy = core_->policies_[index];
    if (policy == BufferPolicy::primary) continue;
    const Tensor& buffer = core_->set_->buffers().originals()[index];
    policy_buffers_.push_back(
        {index, buffer.version(), policy == BufferPolicy::sum ? copied_to(buffer, buffer.device()) : Tensor()});
  }
}

void ReplicatedForward::combine_buffers() const {
  const NoGrad no_graph;
  const FlatReplicas& buffers = core_->set_->buffers();
  for (const auto& [index, version, before] : policy_buffers_) {
    const Tensor& buffer = buffers.originals()[index];
    bool written = buffer.version() != version;
    std::vector<ReplicaBuffer> replicas;
    for (const auto& [number, device] : this->replicas()) {
      written = written || (number > 0 && buffers.was_written(number, index));
      replicas.push_back({buffers.tensor(number, index), core_->rows_[number]});
    }
    if (written) fanout::combine_buffers(buffer, before, replicas, core_->policies_[index]);
  }
}

}  // namespace fanout::detail
