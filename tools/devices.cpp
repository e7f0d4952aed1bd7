// SPDX-License-Identifier: Apache-2.0
#include "tools/devices.h"

#include <fmt/format.h>

#include <string>

#include "runtime/device/device.h"
#include "runtime/device/error.h"

namespace fanout::tools {
namespace {

// As nvidia-smi and CUDA_VISIBLE_DEVICES write it.
std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    const bool group_begins = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    text += fmt::format("{}{:02x}", group_begins ? "-" : "", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

}  // namespace

void print_devices() {
  require_device(Device(0));
  for (int index = 0; index < device_count(); ++index) {
    cudaDeviceProp properties{};
    FANOUT_CHECK(cudaGetDeviceProperties(&properties, index));
    fmt::print("{:<8}{}, {:.1f} GiB, {} multiprocessors, compute capability {}.{}, {}\n", Device(index).name(),
               properties.name, static_cast<double>(properties.totalGlobalMem) / (1 << 30),
               properties.multiProcessorCount, properties.major, properties.minor, uuid_text(properties.uuid));
  }
  fmt::print("device ids count what CUDA shows this process{}\n", visibility_note());
}

}  // namespace fanout::tools
