// SPDX-License-Identifier: Apache-2.0
// Which device something is on, and which one this thread works with.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

namespace fanout {

/// More devices than any machine that this is built for has.
inline constexpr int kMaxDevices = 16;

/// One GPU as the process sees it, by index, or the host. Prints as "cuda:2" or "cpu".
class Device {
 public:
  constexpr explicit Device(int index) : index_(index) {}
  static constexpr Device host() { return Device(-1); }

  /// Reads "cuda:2" or "cpu"; anything else throws InvalidArgument that says so. Does not ask whether the device
  /// exists.
  static Device parse(std::string_view text);

  constexpr int index() const { return index_; }
  constexpr bool is_host() const { return index_ < 0; }
  std::string name() const;

  friend constexpr auto operator<=>(Device, Device) = default;

 private:
  int index_;
};

/// "cuda:0, cuda:1": for messages.
std::string names(const std::vector<Device>& devices);

/// Number of devices that CUDA shows this process; 0 where there is none. Creates no context.
int device_count();

/// Throws NoDeviceError where there is no device, InvalidArgument with the valid range and CUDA_VISIBLE_DEVICES for an
/// index outside it.
void require_device(Device device);

/// " (CUDA_VISIBLE_DEVICES is not set)" or " (CUDA_VISIBLE_DEVICES=2,1)": for messages about device ids. CUDA reads the
/// variable at its first call in the process and never again, so this is the value that it read then, and the note says
/// so where the environment has changed since. Nothing in fanout calls CUDA before main.
std::string visibility_note();

/// "this process sees 2 devices, ids 0 to 1 (CUDA_VISIBLE_DEVICES=2,1)": for messages about ids outside that range.
std::string visible_ids_note();

/// True if `device` has no engine that copies beside the host: then the threads that queue work do it, and more of them
/// make it faster.
bool works_on_host_threads(Device device);

/// Whether this process has a context on `device`; asking creates none.
bool has_context(Device device);

/// Makes `device` current in this thread and restores the former one, also when an exception passes. A former device
/// that the process does not use yet, like device 0 in a new thread, is not restored: making it current would create a
/// context there, with its hundreds of megabytes. The host is no device to make current: then nothing changes.
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int former_ = -1;
};

}  // namespace fanout
