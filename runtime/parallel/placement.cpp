// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/placement.h"

#include <fmt/format.h>

#include <map>
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

// "0", "0 and 2", "0, 2 and 3"
std::string listed(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == numbers.size() ? " and " : ", ") + std::to_string(numbers[i]);
  }
  return text;
}

// "device ids -1 and 7 do not exist; device_ids lists 0 twice, at positions 0 and 2; …": all that is wrong with `ids`.
std::string mistakes_in(const std::vector<int>& ids, int count) {
  std::map<int, std::vector<int>> positions;
  for (std::size_t position = 0; position < ids.size(); ++position) {
    positions[ids[position]].push_back(static_cast<int>(position));
  }
  std::vector<int> unknown;
  std::string repeated;
  for (const auto& [id, places] : positions) {
    if (id < 0 || id >= count) unknown.push_back(id);
    if (places.size() == 1) continue;
    const std::string times = places.size() == 2 ? "twice" : fmt::format("{} times", places.size());
    repeated += fmt::format("device_ids lists {} {}, at positions {}; ", id, times, listed(places));
  }
  std::string text;
  if (unknown.size() == 1) text = fmt::format("device id {} does not exist", unknown[0]);
  if (unknown.size() > 1) text = fmt::format("device ids {} do not exist", listed(unknown));
  if (repeated.empty()) return text;
  return text + (text.empty() ? "" : "; ") + repeated + "each device can hold one replica";
}

// Says so where the current device is another one than the primary.
std::string current_device_note(Device primary) {
  int current = 0;
  FANOUT_CHECK(cudaGetDevice(&current));
  if (Device(current) == primary) return {};
  return fmt::format("\nthe current device ({}) does not choose the primary; device_ids[0] does",
                     Device(current).name());
}

}  // namespace

std::vector<Device> devices_of_ids(const std::vector<int>& ids) {
  std::vector<Device> devices;
  const int count = device_count();
  if (count == 0) require_device(Device(0));
  if (const std::string mistakes = mistakes_in(ids, count); !mistakes.empty()) {
    throw InvalidArgument(fmt::format("{}: {}", mistakes, visible_ids_note()));
  }
  for (const int id : ids) devices.emplace_back(id);
  for (int index = 0; ids.empty() && index < count; ++index) devices.emplace_back(index);
  return devices;
}

void throw_misplaced(ModuleView module, const std::vector<Device>& devices) {
  const Device primary = devices[0];
  std::string first_device, list;
  Device elsewhere = primary;
  std::size_t all = 0, misplaced = 0;
  for (const std::vector<NamedTensor>& tensors : {named_parameters(module), named_buffers(module)}) {
    for (const auto& [name, tensor] : tensors) {
      ++all;
      if (tensor.device() == primary) continue;
      ++misplaced;
      if (first_device.empty()) first_device = tensor.device().name();
      if (elsewhere == primary || elsewhere.is_host()) elsewhere = tensor.device();
      list += fmt::format("\n  {} {} on {}", name, tensor.shape().text(), tensor.device().name());
    }
  }
  std::string text = fmt::format(
      "module must have its parameters and buffers on device {} (device_ids[0]) but found one of them on device: {}\n"
      "{} of {} parameters and buffers are elsewhere:{}\nways out:\n"
      "  move the module before the forward: to(module, Device({}))",
      primary.name(), first_device, misplaced, all, list, primary.index());
  if (!elsewhere.is_host() && elsewhere != primary) {
    text += fmt::format("\n  or make {} the primary by putting it first: device_ids {}", elsewhere.name(),
                        ids_with_first(elsewhere, devices));
  }
  text += fmt::format("\n  or, if a checkpoint put it there, load it with map_location \"{}\"", primary.name());
  text += current_device_note(primary);
  text += "\ndevice ids count the devices that CUDA shows this process" + visibility_note();
  throw PlacementError(text);
}

}  // namespace fanout
