// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/random.h"

#include <array>
#include <atomic>
#include <cmath>
#include <numbers>

namespace fanout {
namespace {

struct alignas(64) DeviceSequence {
  std::atomic<std::uint64_t> offset{0};
};

std::atomic<std::uint64_t> process_seed{0};
std::array<DeviceSequence, kMaxDevices> sequences;

}  // namespace

void manual_seed(std::uint64_t seed) {
  process_seed = seed;
  host_generator() = Generator(seed);
  for (DeviceSequence& sequence : sequences) sequence.offset = 0;
}

double Generator::uniform(double low, double high) {
  return low + (high - low) * (static_cast<double>(engine_() >> 11) * 0x1p-53);
}

double Generator::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform(0, 1)));
  return radius * std::cos(2 * std::numbers::pi * uniform(0, 1));
}

Generator& host_generator() {
  static Generator generator(0);
  return generator;
}

RandomRange next_random_range(Device device, std::int64_t elements) {
  constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;  // spreads the devices over the keys
  const auto index = static_cast<std::uint64_t>(device.index());
  const auto counters = static_cast<std::uint64_t>((elements + 3) / 4);  // Philox gives four numbers a counter
  return {process_seed + kGoldenRatio * (index + 1), sequences[index].offset.fetch_add(counters)};
}

}  // namespace fanout
