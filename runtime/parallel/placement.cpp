// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "runtime/nn/module.h"

namespace fanout {
namespace {

// "{2, 0, 1}": `devices` with `first` moved, or put, to the front.
std::string ids_with_first(Device first, const std::vector<Device>& devices) {
  std::string text = fmt::format("{{{}", first.index());
  for (const Device device : devices) {
    if (device != first) text += fmt::format(", {}", device.index());
  }
  return text + "}";
}

}  // namespace

std::vector<Device> devices_of_ids(const std::vector<int>& ids) {
  std::vector<Device> devices;
  const int count = device_count();
  if (ids.empty()) {
    if (count == 0) require_device(Device(0));
    for (int index = 0; index < count; ++index) devices.emplace_back(index);
    return devices;
  }
  for (const int id : ids) {
    require_device(Device(id));
    if (std::find(devices.begin(), devices.end(), Device(id)) != devices.end()) {
      throw InvalidArgument(
          fmt::format("device_ids lists {} twice; each device can hold one replica (this process sees ids 0 to {}{})",
                      id, count - 1, visibility_note()));
    }
    devices.emplace_back(id);
  }
  return devices;
}

void throw_misplaced(ModuleView module, const std::vector<Device>& devices) {
  const Device primary = devices[0];
  std::string first_device, list;
  Device elsewhere = primary;
  for (const std::vector<NamedTensor>& tensors : {named_parameters(module), named_buffers(module)}) {
    for (const auto& [name, tensor] : tensors) {
      if (tensor.device() == primary) continue;
      if (first_device.empty()) first_device = tensor.device().name();
      if (elsewhere == primary || elsewhere.is_host()) elsewhere = tensor.device();
      list += fmt::format("\n  {} {} on {}", name, tensor.shape().text(), tensor.device().name());
    }
  }
  std::string text = fmt::format(
      "module must have its parameters and buffers on device {} (device_ids[0]) but found one of them on device: {}\n"
      "misplaced:{}\nways out:\n"
      "  move the module before the forward: to(module, Device({}))",
      primary.name(), first_device, list, primary.index());
  if (!elsewhere.is_host() && elsewhere != primary) {
    text += fmt::format("\n  or make {} the primary by putting it first: device_ids {}", elsewhere.name(),
                        ids_with_first(elsewhere, devices));
  }
  text += fmt::format("\n  or, if a checkpoint put it there, load it with map_location \"{}\"", primary.name());
  text += "\ndevice ids count the devices that CUDA shows this process" + visibility_note();
  throw PlacementError(text);
}

}  // namespace fanout
