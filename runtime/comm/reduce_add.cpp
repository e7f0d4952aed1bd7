// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/arithmetic.h"
#include "runtime/comm/arguments.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/flat_group.h"
#include "runtime/device/context.h"
#include "runtime/device/error.h"
#include "runtime/tensor/copy.h"

namespace fanout::comm {
namespace {

// sum = a + b, row-major and on one device.
void add(const Tensor& sum, const Tensor& a, const Tensor& b) {
  const DeviceGuard guard(sum.device());
  dispatch_any(sum.dtype(), [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    FANOUT_CHECK(kernels::add(compute_stream(sum.device()).handle, sum.data<T>(), static_cast<const T*>(a.data<T>()),
                              static_cast<const T*>(b.data<T>()), sum.elements()));
  });
}

void reduce_by_nccl(const std::vector<Tensor>& terms, const std::vector<Device>& devices, const Tensor& total) {
  std::vector<const void*> places;
  for (const Tensor& term : terms) places.push_back(term.raw_data());
  Communicator& communicator = Communicator::of(devices);
  communicator.reduce(places, total.raw_data(), total.elements(), total.dtype());
  communicator.wait_for_collectives();
}

void reduce_by_copies(const std::vector<Tensor>& terms, const Tensor& total) {
  const Device here = total.device();
  for (std::size_t i = 1; i < terms.size(); ++i) {
    const Tensor term = terms[i].device() == here ? terms[i] : copied_to(terms[i], here);
    add(total, i == 1 ? terms[0] : total, term);
  }
}

// A new tensor on the root's device: the sum of at least two inputs of one shape and dtype.
Tensor sum(const std::vector<Tensor>& inputs, std::size_t root) {
  std::vector<Tensor> terms{contiguous_copy(inputs[root])};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i != root) terms.push_back(contiguous_copy(inputs[i]));
  }
  const Tensor total = empty_like(terms[0]);
  if (total.elements() == 0) return total;
  std::vector<Device> devices;
  for (const Tensor& term : terms) devices.push_back(term.device());
  if (are_distinct_devices(devices)) {
    reduce_by_nccl(terms, devices, total);
  } else {
    reduce_by_copies(terms, total);
  }
  return total;
}

// Throws unless the inputs can be summed; `where` stands before the text.
void require_summable(const std::string& where, const std::vector<Tensor>& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].device().is_host()) {
      throw InvalidArgument(fmt::format("{}reduce_add expects all inputs to be on GPUs, but input {} is on {}", where,
                                        i, inputs[i].device().name()));
    }
    if (inputs[i].shape() == inputs[0].shape()) continue;
    throw InvalidArgument(fmt::format("{}input {} has invalid size: got {}, but expected {}", where, i,
                                      fmt::join(inputs[i].shape().sizes(), "x"),
                                      fmt::join(inputs[0].shape().sizes(), "x")));
  }
  require_dtype(where + "reduce_add", inputs[0], inputs);
}

std::size_t root_among(const std::vector<Device>& devices, std::optional<Device> destination) {
  const Device wanted = destination ? *destination : current_device();
  for (std::size_t i = devices.size(); i-- > 0;) {
    if (devices[i] == wanted) return i;
  }
  throw InvalidArgument(fmt::format(
      "reduce_add expects destination to be on the same GPU with one of the tensors, but {}{} is none of {}",
      destination ? "" : "the current device ", wanted.name(), names(devices)));
}

// inputs[i][t] for one t.
std::vector<Tensor> column(const std::vector<std::vector<Tensor>>& inputs, std::size_t t) {
  std::vector<Tensor> tensors;
  for (const std::vector<Tensor>& row : inputs) tensors.push_back(row[t]);
  return tensors;
}

void require_columns(const std::vector<std::vector<Tensor>>& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].size() != inputs[0].size()) {
      throw InvalidArgument(fmt::format("reduce_add_coalesced: inputs[{}] has {} tensors and inputs[0] has {}", i,
                                        inputs[i].size(), inputs[0].size()));
    }
    require_defined(fmt::format("reduce_add_coalesced: inputs[{}]", i), inputs[i]);
    for (std::size_t t = 1; t < inputs[i].size(); ++t) {
      if (inputs[i][t].device() == inputs[i][0].device()) continue;
      throw InvalidArgument(fmt::format(
          "reduce_add_coalesced: inputs[{}] has tensor 0 on {} and tensor {} on {}; they must be on one device", i,
          inputs[i][0].device().name(), t, inputs[i][t].device().name()));
    }
  }
  for (std::size_t t = 0; t < inputs[0].size(); ++t) {
    require_summable(fmt::format("reduce_add_coalesced: tensor {}: ", t), column(inputs, t));
  }
}

}  // namespace

Tensor reduce_add(const std::vector<Tensor>& inputs, std::optional<Device> destination) {
  if (inputs.empty()) throw InvalidArgument("reduce_add expects at least one input");
  require_defined("reduce_add", inputs);
  require_summable("", inputs);
  std::vector<Device> devices;
  for (const Tensor& input : inputs) devices.push_back(input.device());
  const std::size_t root = root_among(devices, destination);
  return inputs.size() == 1 ? inputs[0] : sum(inputs, root);
}

std::vector<Tensor> reduce_add_coalesced(const std::vector<std::vector<Tensor>>& inputs,
                                         std::optional<Device> destination, std::size_t buffer_bytes) {
  if (inputs.empty()) throw InvalidArgument("reduce_add_coalesced expects at least one list of tensors");
  require_columns(inputs);
  const std::vector<Tensor>& first = inputs[0];
  if (first.empty()) return {};
  std::vector<Device> devices;
  for (const std::vector<Tensor>& row : inputs) devices.push_back(row[0].device());
  const std::size_t root = root_among(devices, destination);

  std::vector<Tensor> results(first.size());
  if (inputs.size() == 1) {
    for (std::size_t t = 0; t < first.size(); ++t) results[t] = copied_to(first[t], devices[0]);
    return results;
  }
  for (const Numbers& numbers : groups_within(first, buffer_bytes)) {
    const FlatGroup group(first, numbers);
    std::vector<Tensor> terms;
    for (const std::vector<Tensor>& row : inputs) terms.push_back(group.packed(row));
    const Tensor total = sum(terms, root);
    for (std::size_t i = 0; i < numbers.size(); ++i) results[numbers[i]] = group.part(total, i);
  }
  return results;
}

}  // namespace fanout::comm
