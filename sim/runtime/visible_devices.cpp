// SPDX-License-Identifier: Apache-2.0
// Reads CUDA_VISIBLE_DEVICES as CUDA does: ordinals or UUID prefixes, the first bad entry ends the list, a device named
// twice leaves none. CUDA_DEVICE_ORDER changes nothing, since all simulated devices are alike.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>

#include "sim/runtime/settings.h"

namespace sim {
namespace {

constexpr const char* kUuidPrefix = "GPU-";

// The device that a UUID or a prefix of one names; -1 if none or several do.
int device_by_uuid(const std::string& entry, int devices) {
  int found = -1;
  for (int device = 0; device < devices; ++device) {
    if (device_uuid_text(device).compare(0, entry.size(), entry) != 0) continue;
    if (found >= 0) return -1;
    found = device;
  }
  return found;
}

// As strtoul reads it: blanks, an optional +, digits; what follows is ignored. -1 if there is no such device.
int device_by_number(const std::string& entry, int devices) {
  char* end = nullptr;
  const long number = std::strtol(entry.c_str(), &end, 10);
  const bool any_digit = end != entry.c_str();
  return any_digit && number >= 0 && number < devices ? static_cast<int>(number) : -1;
}

}  // namespace

std::vector<int> visible_devices(const char* text, int devices) {
  std::vector<int> visible;
  if (!text) {
    for (int device = 0; device < devices; ++device) visible.push_back(device);
    return visible;
  }
  const bool by_uuid = std::strncmp(text, kUuidPrefix, std::strlen(kUuidPrefix)) == 0;
  const std::string list = text;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string entry = list.substr(begin, end - begin);
    const int device = by_uuid ? device_by_uuid(entry, devices) : device_by_number(entry, devices);
    // A bare number in a list of UUIDs fits no UUID, and a UUID in a list of numbers is no number: both end the list.
    if (device < 0 || entry.empty()) break;
    if (std::find(visible.begin(), visible.end(), device) != visible.end()) return {};
    visible.push_back(device);
    begin = end + 1;
  }
  return visible;
}

void device_uuid(int machine_index, unsigned char bytes[16]) {
  // splitmix64: different in the first bytes already, the same in every run.
  std::uint64_t state = 0x66616e6f75740000ull + static_cast<std::uint64_t>(machine_index);
  for (int half = 0; half < 2; ++half) {
    std::uint64_t value = (state += 0x9e3779b97f4a7c15ull);
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    value ^= value >> 31;
    std::memcpy(bytes + 8 * half, &value, sizeof value);
  }
}

std::string device_uuid_text(int machine_index) {
  unsigned char bytes[16];
  device_uuid(machine_index, bytes);
  std::string text = kUuidPrefix;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += "0123456789abcdef"[bytes[i] >> 4];
    text += "0123456789abcdef"[bytes[i] & 15];
  }
  return text;
}

}  // namespace sim
