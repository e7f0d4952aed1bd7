// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/arguments.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>

#include "runtime/device/error.h"
#include "runtime/tensor/copy.h"

namespace fanout::comm {

void require_defined(std::string_view function, const std::vector<Tensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) throw InvalidArgument(fmt::format("{}: tensor {} is undefined", function, i));
  }
}

void require_dtype(std::string_view function, const Tensor& like, const std::vector<Tensor>& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].dtype() == like.dtype()) continue;
    throw InvalidArgument(
        fmt::format("{}: all inputs and outputs must be of the same Tensor dtype, but tensor {} is {} and not {}",
                    function, i, name(tensors[i].dtype()), name(like.dtype())));
  }
}

void require_devices(const std::vector<Device>& devices) {
  for (const Device device : devices) {
    if (device.is_host()) {
      throw InvalidArgument(
          fmt::format("Expected non-negative device index, but got {} ({})", device.index(), device.name()));
    }
    require_device(device);
  }
}

void require_outputs_on_devices(const std::vector<Tensor>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].device().is_host()) continue;
    throw InvalidArgument(
        fmt::format("Expected all output tensors to be CUDA tensors, but output tensor at index {} has device '{}'", i,
                    outputs[i].device().name()));
  }
}

Device current_device() {
  int index = 0;
  FANOUT_CHECK(cudaGetDevice(&index));
  return Device(index);
}

bool are_distinct_devices(const std::vector<Device>& devices) {
  std::vector<Device> sorted = devices;
  std::sort(sorted.begin(), sorted.end());
  const bool with_host = !sorted.empty() && sorted.front().is_host();
  return !with_host && std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

void copy_unless_same(const Tensor& target, const Tensor& source) {
  const bool same = target.raw_data() == source.raw_data() && target.strides() == source.strides();
  if (!same) copy(target, source);
}

}  // namespace fanout::comm
