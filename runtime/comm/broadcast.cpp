// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "runtime/comm/arguments.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/flat_group.h"
#include "runtime/device/error.h"
#include "runtime/tensor/copy.h"

namespace fanout::comm {
namespace {

// The source's device first, since it is the root, then the targets' in order.
std::vector<Device> ranks_of(const Tensor& source, const std::vector<Tensor>& targets) {
  std::vector<Device> devices{source.device()};
  for (const Tensor& target : targets) devices.push_back(target.device());
  return devices;
}

// Copies `source` to all `targets`, which have its shape and dtype.
void send(const Tensor& source, const std::vector<Tensor>& targets) {
  if (source.elements() == 0 || targets.empty()) return;
  const Tensor packed = contiguous_copy(source);
  const std::vector<Device> devices = ranks_of(packed, targets);
  const bool contiguous =
      std::all_of(targets.begin(), targets.end(), [](const Tensor& target) { return target.is_contiguous(); });
  if (!contiguous || !are_distinct_devices(devices)) {
    for (const Tensor& target : targets) copy_unless_same(target, packed);
    return;
  }
  std::vector<void*> places{packed.raw_data()};
  for (const Tensor& target : targets) places.push_back(target.raw_data());
  Communicator& communicator = Communicator::of(devices);
  communicator.broadcast(places, packed.bytes());
  communicator.wait_for_collectives();
  for (const Tensor& target : targets) target.count_write();
}

void require_on_first_device(const std::vector<Tensor>& tensors, const std::vector<Device>& devices) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].device() == devices[0]) continue;
    throw InvalidArgument(fmt::format("All tensors must be on devices[0]: {}, but tensor {} is on {}",
                                      devices[0].name(), i, tensors[i].device().name()));
  }
}

}  // namespace

std::vector<Tensor> broadcast(const Tensor& tensor, const std::vector<Device>& devices) {
  require_defined("broadcast", {tensor});
  require_devices(devices);
  std::vector<Tensor> results, copies;
  for (const Device device : devices) {
    if (device != tensor.device()) copies.push_back(empty(tensor.shape(), tensor.dtype(), device));
    results.push_back(device == tensor.device() ? tensor : copies.back());
  }
  send(tensor, copies);
  return results;
}

void broadcast_to(const Tensor& tensor, const std::vector<Tensor>& outputs) {
  require_defined("broadcast_to", {tensor});
  require_defined("broadcast_to", outputs);
  require_outputs_on_devices(outputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].shape() == tensor.shape()) continue;
    throw InvalidArgument(
        fmt::format("Expected all output tensors to have same shape as the source tensor {}, but output tensor at "
                    "index {} has shape "
                    "{}",
                    tensor.shape().text(), i, outputs[i].shape().text()));
  }
  require_dtype("broadcast_to", tensor, outputs);
  send(tensor, outputs);
}

std::vector<std::vector<Tensor>> broadcast_coalesced(const std::vector<Tensor>& tensors,
                                                     const std::vector<Device>& devices, std::size_t buffer_bytes) {
  require_defined("broadcast_coalesced", tensors);
  if (devices.empty()) throw InvalidArgument("broadcast_coalesced expects at least one device");
  require_devices(devices);
  require_on_first_device(tensors, devices);
  std::vector<std::vector<Tensor>> results(devices.size(), tensors);
  for (const Numbers& numbers : groups_closed_at(tensors, buffer_bytes)) {
    const FlatGroup group(tensors, numbers);
    const Tensor packed = group.packed(tensors);
    const std::vector<Tensor> buffers = broadcast(packed, devices);
    for (std::size_t rank = 1; rank < devices.size(); ++rank) {
      if (devices[rank] == devices[0]) continue;
      for (std::size_t i = 0; i < numbers.size(); ++i) results[rank][numbers[i]] = group.part(buffers[rank], i);
    }
  }
  return results;
}

}  // namespace fanout::comm
