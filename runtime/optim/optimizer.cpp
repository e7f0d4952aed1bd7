// SPDX-License-Identifier: Apache-2.0
#include "runtime/optim/optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "runtime/autograd/node.h"
#include "runtime/device/context.h"
#include "runtime/tensor/copy.h"
#include "runtime/trace/stages.h"

namespace fanout {
namespace {

GradientSink* sink_of(const Tensor& parameter) {
  return static_cast<GradientSink*>(parameter.body().sink.get());
}

// The sum that is still to be made of the parameter's gradient, or null.
PendingSum* pending_sum(const Tensor& parameter) {
  const GradientSink* const sink = sink_of(parameter);
  return sink == nullptr ? nullptr : sink->pending();
}

// The gradient, of which a sum may be pending.
Tensor gradient_as_it_is(const Tensor& parameter) {
  return pending_sum(parameter) != nullptr ? sink_of(parameter)->place_as_it_is() : parameter.grad();
}

bool has_sparse_gradient(const Tensor& parameter) {
  const GradientSink* const sink = sink_of(parameter);
  return sink != nullptr && sink->is_sparse();
}

}  // namespace

Optimizer::Optimizer(std::string_view name, std::vector<Tensor> parameters, double learning_rate, std::size_t states,
                     std::int64_t count_limit)
    : name_(name),
      parameters_(std::move(parameters)),
      learning_rate_(learning_rate),
      states_(states),
      count_limit_(count_limit) {
  require_not_negative("learning rate", learning_rate);
  check_parameters();
  slots_.resize(parameters_.size());
  for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].parameter = parameters_[i];
}

void Optimizer::check_parameters() const {
  if (parameters_.empty()) refuse("got an empty parameter list; does the module's visit name its members?");
  std::unordered_set<const TensorBody*> seen;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& parameter = parameters_[i];
    if (!parameter.defined()) refuse(fmt::format("parameter {} is an undefined tensor", i));
    if (!is_full_precision(parameter.dtype()) || !parameter.is_contiguous()) {
      refuse(fmt::format("parameter {} is {}; f32 or f64 without gaps is needed", i, parameter.text()));
    }
    if (parameter.body().producer)
      refuse(fmt::format("parameter {} is the result of an operator; only leaves can be optimized", i));
    if (!seen.insert(&parameter.body()).second) refuse(fmt::format("parameter {} was given twice", i));
  }
}

void Optimizer::refuse(const std::string& reason) const {
  throw InvalidArgument(fmt::format("{}: {}", name_, reason));
}

void Optimizer::require_not_negative(std::string_view what, double value) const {
  if (!(value >= 0)) refuse(fmt::format("invalid {} {}; it must be at least 0", what, value));
}

void Optimizer::set_learning_rate(double learning_rate) {
  require_not_negative("learning rate", learning_rate);
  learning_rate_ = learning_rate;
}

void Optimizer::zero_grad() {
  for (const Tensor& parameter : parameters_) parameter.clear_grad();
}

bool Optimizer::placed() const {
  return !order_.empty() && std::all_of(slots_.begin(), slots_.end(),
                                        [](const Slot& slot) { return slot.device == slot.parameter.device(); });
}

// New state buffers for these parameters, all on `device`, in the layout that to() gives a module; old states are
// copied.
void Optimizer::place_on(Device device, const std::vector<std::size_t>& numbers) {
  std::vector<Tensor> on_device;
  for (const std::size_t number : numbers) on_device.push_back(parameters_[number]);
  const FlatLayout layout(on_device);
  for (const std::size_t i : layout.order()) {
    Slot& slot = slots_[numbers[i]];
    slot.device = device;
    slot.offset = layout.offset(i);
    order_.push_back(numbers[i]);
  }
  if (device.is_host()) return;  // no gradient arrives there, and the states can wait where they are
  for (std::size_t state = 0; state < states_; ++state) {
    const Intrusive<Storage> buffer = zeroed_buffer(layout, device);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      Tensor& kept = slots_[numbers[i]].states[state];
      const Tensor part = layout.part(buffer, i, on_device[i]);
      if (kept.defined()) copy(part, kept);
      kept = part;
    }
  }
}

void Optimizer::place() {
  std::map<Device, std::vector<std::size_t>> by_device;
  for (std::size_t number = 0; number < slots_.size(); ++number)
    by_device[parameters_[number].device()].push_back(number);
  order_.clear();
  for (const auto& [device, numbers] : by_device) place_on(device, numbers);
}

Optimizer::Run Optimizer::run_of(const Slot& slot, const Tensor& gradient) const {
  Run run{.device = slot.device,
          .stream = compute_stream(slot.device).handle,
          .dtype = slot.parameter.dtype(),
          .parameter = static_cast<char*>(slot.parameter.raw_data()),
          .gradient = static_cast<const char*>(gradient.raw_data()),
          .states = {},
          .elements = slot.parameter.elements(),
          .steps_before = slot.steps};
  for (std::size_t state = 0; state < states_; ++state) {
    run.states[state] = static_cast<char*>(slot.states[state].raw_data());
  }
  return run;
}

// Adds to the run of order_[position] the parameters behind it that go on where it ends, in all buffers. Returns the
// position behind them.
std::size_t Optimizer::extend(Run& run, std::size_t position) const {
  const Slot& first = slots_[order_[position]];
  while (++position < order_.size()) {
    const Slot& next = slots_[order_[position]];
    const auto distance = static_cast<std::ptrdiff_t>(next.offset - first.offset);
    const bool like =
        next.device == run.device && next.parameter.dtype() == run.dtype && next.steps == run.steps_before;
    if (!like || next.parameter.raw_data() != run.parameter + distance) break;
    if (has_sparse_gradient(next.parameter)) break;
    if (pending_sum(next.parameter) != pending_sum(first.parameter)) break;
    const Tensor gradient = gradient_as_it_is(next.parameter);
    if (!gradient.defined() || !gradient.is_contiguous() || gradient.raw_data() != run.gradient + distance) break;
    run.elements = distance / static_cast<std::ptrdiff_t>(size_of(run.dtype)) + next.parameter.elements();
  }
  return position;
}

// Updates order_[first] to order_[last - 1], of whose gradients `sum` is pending, if any.
void Optimizer::finish(const Run& run, std::size_t first, std::size_t last, PendingSum* sum) {
  const DeviceGuard guard(run.device);
  const StageScope stage(run.device, Stage::update);
  for (std::size_t position = first; position < last; ++position) count_update(slots_[order_[position]]);
  if (sum == nullptr) return update(run);
  const std::size_t size = size_of(run.dtype);
  sum->make_and_update(run.gradient, static_cast<std::size_t>(run.elements) * size,
                       [&](StreamView stream, std::size_t begin, std::size_t end) {
                         Run piece = run;
                         piece.stream = stream.handle;
                         piece.parameter += begin;
                         piece.gradient += begin;
                         for (std::size_t state = 0; state < states_; ++state) piece.states[state] += begin;
                         piece.elements = static_cast<std::int64_t>((end - begin) / size);
                         update(piece);
                       });
}

void Optimizer::count_update(Slot& slot) const {
  slot.parameter.count_write();
  slot.steps = std::min(slot.steps + 1, count_limit_);
}

void Optimizer::require_dense() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!has_sparse_gradient(parameters_[i])) continue;
    refuse(fmt::format(
        "parameter {}, {}, has a sparse gradient, which only Sgd without momentum and weight decay takes; an Embedding "
        "without sparse has a dense one",
        i, parameters_[i].text()));
  }
}

void Optimizer::step() {
  if (!takes_sparse()) require_dense();
  if (!placed()) place();
  for (std::size_t position = 0; position < order_.size();) {
    const std::size_t first = position++;
    if (Slot& slot = slots_[order_[first]]; has_sparse_gradient(slot.parameter)) {
      update_sparse(slot.parameter, *sparse_grad(slot.parameter));
      count_update(slot);
      continue;
    }
    const Tensor gradient = gradient_as_it_is(slots_[order_[first]].parameter);
    if (!gradient.defined()) continue;
    const Tensor packed = contiguous_copy(gradient);  // the gradient itself, but for one made with create_graph
    Run run = run_of(slots_[order_[first]], packed);
    if (packed.raw_data() == gradient.raw_data()) position = extend(run, first);
    finish(run, first, position, pending_sum(slots_[order_[first]].parameter));
  }
}

}  // namespace fanout
