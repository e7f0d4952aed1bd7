// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/device.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <optional>

#include "runtime/device/error.h"

namespace fanout {
namespace {

using Text = std::optional<std::string>;

Text visible_devices_now() {
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  return text == nullptr ? Text() : Text(text);
}

// CUDA keeps what it read at its first call: the value is kept here too, and CUDA made to read it at the same moment.
const Text& visible_devices_at_start() {
  static const Text& at_start = *new Text([] {
    Text text = visible_devices_now();
    int ignored = 0;
    if (cudaGetDeviceCount(&ignored) != cudaSuccess) (void)cudaGetLastError();  // whoever needs a device finds out
    return text;
  }());
  return at_start;
}

}  // namespace

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
  (void)visible_devices_at_start();
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
  const Text& read = visible_devices_at_start();
  const Text now = visible_devices_now();
  if (now == read) {
    return read ? fmt::format(" (CUDA_VISIBLE_DEVICES={})", *read) : " (CUDA_VISIBLE_DEVICES is not set)";
  }
  const auto value = [](const std::string& text) { return text.empty() ? std::string("empty") : text; };
  return fmt::format(" (CUDA_VISIBLE_DEVICES was {} when CUDA started; {} afterwards has no effect)",
                     read ? value(*read) : "not set",
                     now ? (read ? "changing" : "setting") + (" it to " + value(*now)) : "removing it");
}

std::string visible_ids_note() {
  const int count = device_count();
  return fmt::format("this process sees {} device{}, ids 0 to {}{}", count, count == 1 ? "" : "s", count - 1,
                     visibility_note());
}

void require_device(Device device) {
  const int count = device_count();
  if (count == 0) throw NoDeviceError("no CUDA-capable device is detected" + visibility_note());
  if (device.index() < 0 || device.index() >= count) {
    throw InvalidArgument(fmt::format("device id {} does not exist: {}", device.index(), visible_ids_note()));
  }
}

bool works_on_host_threads(Device device) {
  int engines = 0;
  FANOUT_CHECK(cudaDeviceGetAttribute(&engines, cudaDevAttrAsyncEngineCount, device.index()));
  return engines == 0;
}

bool has_context(Device device) {
  using GetState = int (*)(int device, unsigned int* flags, int* active);
  static const GetState get_state = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    constexpr const char* kName = "cuDevicePrimaryCtxGetState";
#if CUDART_VERSION >= 12050
    const cudaError_t code = cudaGetDriverEntryPointByVersion(kName, &function, 7000, cudaEnableDefault, &found);
#else
    const cudaError_t code = cudaGetDriverEntryPoint(kName, &function, cudaEnableDefault, &found);
#endif
    if (code == cudaSuccess && found == cudaDriverEntryPointSuccess) return reinterpret_cast<GetState>(function);
    (void)cudaGetLastError();
    return static_cast<GetState>(nullptr);  // then every device may have one
  }();
  unsigned int flags = 0;
  int active = 1;
  return get_state == nullptr || get_state(device.index(), &flags, &active) != 0 || active != 0;
}

DeviceGuard::DeviceGuard(Device device) {
  if (device.is_host()) return;
  (void)visible_devices_at_start();
  int current = 0;
  FANOUT_CHECK(cudaGetDevice(&current));
  if (current == device.index()) return;
  FANOUT_CHECK(cudaSetDevice(device.index()));
  former_ = has_context(Device(current)) ? current : -1;
}

DeviceGuard::~DeviceGuard() {
  if (former_ >= 0) detail::report_unreleased(cudaSetDevice(former_), "cudaSetDevice");
}

}  // namespace fanout
