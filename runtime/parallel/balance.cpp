// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/balance.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>

#include "runtime/device/error.h"
#include "runtime/device/warning.h"

namespace fanout {
namespace {

std::string memory_text(std::uint64_t bytes) {
  return fmt::format("{:.1f} GiB of memory", static_cast<double>(bytes) / static_cast<double>(1ull << 30));
}

std::string cores_text(std::uint64_t count) {
  return fmt::format("{} multiprocessors", count);
}

template <class Text>
std::optional<std::string> imbalance_of(const std::vector<Device>& devices, const std::vector<std::uint64_t>& amounts,
                                        Text text) {
  if (amounts.empty()) return std::nullopt;
  const auto least = std::min_element(amounts.begin(), amounts.end());
  const auto most = std::max_element(amounts.begin(), amounts.end());
  if (*least * 4 >= *most * 3) return std::nullopt;  // in whole numbers, so that 75 % itself is no matter of rounding
  const Device small = devices[static_cast<std::size_t>(least - amounts.begin())];
  const Device large = devices[static_cast<std::size_t>(most - amounts.begin())];
  return fmt::format(
      "There is an imbalance between your GPUs. You may want to exclude {} which has less than 75% of the memory or "
      "cores "
      "of {} ({} against {}). You can do so by setting the device_ids argument to DataParallel, or by setting the "
      "CUDA_VISIBLE_DEVICES environment variable.",
      small.name(), large.name(), text(*least), text(*most));
}

}  // namespace

std::optional<std::string> imbalance(const std::vector<Device>& devices, const std::vector<std::uint64_t>& memory_bytes,
                                     const std::vector<int>& multiprocessors) {
  if (const auto warning = imbalance_of(devices, memory_bytes, memory_text)) return warning;
  return imbalance_of(devices, {multiprocessors.begin(), multiprocessors.end()}, cores_text);
}

void warn_if_unbalanced(const std::vector<Device>& devices) {
  if (devices.size() < 2) return;
  std::vector<std::uint64_t> memory_bytes;
  std::vector<int> multiprocessors;
  for (const Device device : devices) {
    cudaDeviceProp properties{};
    FANOUT_CHECK(cudaGetDeviceProperties(&properties, device.index()));
    memory_bytes.push_back(properties.totalGlobalMem);
    multiprocessors.push_back(properties.multiProcessorCount);
  }
  if (const auto warning = imbalance(devices, memory_bytes, multiprocessors)) warn(*warning);
}

}  // namespace fanout
