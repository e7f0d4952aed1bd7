// SPDX-License-Identifier: Apache-2.0
// What a launch needs besides its threads: dynamic shared memory, the mode of launch shapes, the kernel's name.
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "sim/device/fiber_annotations.h"
#include "sim/device/kernel_checks.h"
#include "sim/device/switch.h"
#include "sim/lanes.h"

namespace sim {
namespace {

struct SharedMemory {
  SharedMemory() : bytes(static_cast<char*>(std::aligned_alloc(128, kMostDynamicSharedBytes))) {}
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() {
    note_usable(bytes, kMostDynamicSharedBytes, kMostDynamicSharedBytes);
    std::free(bytes);
  }
  char* bytes;
};

SharedMemory& shared_memory() {
  thread_local SharedMemory memory;
  return memory;
}

}  // namespace

void* dynamic_shared() {
  return shared_memory().bytes;
}

void prepare_dynamic_shared(std::size_t bytes) {
  static const bool poison = parse_switch(std::getenv("FANOUT_SIM_POISON")).value_or(false);
  char* memory = shared_memory().bytes;
  note_usable(memory, bytes, kMostDynamicSharedBytes);
  if (poison) checks::fill_unseen(memory, 0xFF, bytes);
}

bool full_lanes() {
  static const bool full = [] {
    const char* text = std::getenv("FANOUT_SIM_LANES");
    return text != nullptr && std::strcmp(text, "full") == 0;
  }();
  return full;
}

const char* kernel_name(const char* text, const char* function) {
  const std::string key = std::string(text) + " = ";
  const std::string_view all(function);
  const auto begin = all.rfind(key);
  if (begin == std::string_view::npos || begin == 0 || std::strchr(" [", all[begin - 1]) == nullptr) return text;
  auto value = begin + key.size();
  if (all[value] == '&') ++value;  // as clang writes it
  auto end = value;
  for (int depth = 0; end < all.size() && (depth > 0 || std::strchr(",;]", all[end]) == nullptr); ++end) {
    if (std::strchr("<({[", all[end]) != nullptr) ++depth;
    if (std::strchr(">)}]", all[end]) != nullptr) --depth;
  }
  static std::mutex mutex;
  static auto* const names = new std::set<std::string>();  // never freed: launches may come until the very end
  const std::lock_guard lock(mutex);
  return names->emplace(all.substr(value, end - value)).first->c_str();
}

}  // namespace sim
