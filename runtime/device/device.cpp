// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/device.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "runtime/device/error.h"

namespace fanout {

Device Device::parse(std::string_view text) {
  if (text == "cpu") return host();
  constexpr std::string_view kPrefix = "cuda:";
  int index = -1;
  if (text.starts_with(kPrefix)) {
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + kPrefix.size(), end, index);
    if (error == std::errc{} && rest == end && index >= 0) return Device(index);
  }
  throw InvalidArgument(fmt::format("'{}' is no device: write \"cuda:N\" with N from 0, or \"cpu\"", text));
}

std::string Device::name() const {
  return is_host() ? "cpu" : fmt::format("cuda:{}", index_);
}

std::string names(const std::vector<Device>& devices) {
  std::string text;
  for (const Device device : devices) text += (text.empty() ? "" : ", ") + device.name();
  return text;
}

int device_count() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaErrorNoDevice || code == cudaErrorInsufficientDriver || code == cudaErrorStubLibrary) {
    (void)cudaGetLastError();
    return 0;
  }
  FANOUT_CHECK(code);
  return count;
}

std::string visibility_note() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible == nullptr ? " (CUDA_VISIBLE_DEVICES is not set)" : fmt::format(" (CUDA_VISIBLE_DEVICES={})", visible);
}

void require_device(Device device) {
  const int count = device_count();
  if (count == 0) throw NoDeviceError("no CUDA-capable device is detected" + visibility_note());
  if (device.index() < 0 || device.index() >= count) {
    throw InvalidArgument(fmt::format("device id {} does not exist: this process sees {} device{}, ids 0 to {}{}",
                                      device.index(), count, count == 1 ? "" : "s", count - 1, visibility_note()));
  }
}

DeviceGuard::DeviceGuard(Device device) {
  if (device.is_host()) return;
  int current = 0;
  FANOUT_CHECK(cudaGetDevice(&current));
  if (current == device.index()) return;
  FANOUT_CHECK(cudaSetDevice(device.index()));
  former_ = current;
}

DeviceGuard::~DeviceGuard() {
  if (former_ >= 0) detail::report_unreleased(cudaSetDevice(former_), "cudaSetDevice");
}

}  // namespace fanout
