// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/link_check.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>

#include "runtime/device/error.h"
#include "runtime/device/links.h"
#include "runtime/tensor/copy.h"

namespace fanout::comm {
namespace {

constexpr std::int64_t kBytes = 64 << 10;

// Bytes without a period that a copy of the wrong part could hide in.
Tensor pattern() {
  const Tensor bytes = empty({kBytes}, DType::u8, Device::host());
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < kBytes; ++i) {
    state = state * 1664525 + 1013904223;  // the generator of Numerical Recipes
    bytes.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(state >> 24);
  }
  return bytes;
}

// How many bytes arrive wrong.
std::int64_t wrong_bytes(const Tensor& sent, Device source, Device target) {
  const Tensor received = copied_to(copied_to(copied_to(sent, source), target), Device::host());
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < kBytes; ++i) wrong += received.data<std::uint8_t>()[i] != sent.data<std::uint8_t>()[i];
  return wrong;
}

}  // namespace

void check_links(const std::vector<Device>& devices) {
  const Tensor sent = pattern();
  for (const Device source : devices) {
    for (const Device target : devices) {
      if (source == target) continue;
      const auto where = [&] { return fmt::format("checking the link from {} to {}: ", source.name(), target.name()); };
      const std::int64_t wrong = naming_failures(where, [&] { return wrong_bytes(sent, source, target); });
      if (wrong == 0) continue;
      close_link(
          source, target,
          fmt::format("{} of {} bytes sent from {} to {} arrived wrong", wrong, kBytes, source.name(), target.name()));
    }
  }
}

}  // namespace fanout::comm
