// SPDX-License-Identifier: Apache-2.0
#include "sim/runtime/objects.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "sim/runtime/machine.h"
#include "sim/runtime/report.h"

namespace sim::objects {
namespace {

struct Words {
  const char* one;
  const char* made;
  const char* ended;
};
constexpr std::array<Words, 9> kWords = {{
    {"block", "allocated", "freed"},
    {"pool block", "allocated", "freed"},
    {"pinned block", "allocated", "freed"},
    {"host registration", "made", "undone"},
    {"stream", "made", "destroyed"},
    {"event", "made", "destroyed"},
    {"memory pool", "made", "destroyed"},
    {"cuBLAS handle", "made", "destroyed"},
    {"NCCL communicator", "made", "destroyed"},
}};

const Words& words_of(Kind kind) {
  return kWords[static_cast<std::size_t>(kind)];
}

struct Object {
  Kind kind;
  int device;
  std::size_t bytes;
  SourceLine made_at, ended_at;
  bool is_live = true;
};

struct LeftError {
  cudaError_t error;
  SourceLine place;
};

struct Known {
  std::mutex mutex;
  std::map<std::uintptr_t, Object> objects;  // ended ones stay until their address is used again
  std::map<std::thread::id, LeftError> errors;
};

Known& known() {
  static auto& instance = *new Known;
  return instance;
}

std::uintptr_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

void end(Object& object) {
  object.is_live = false;
  object.ended_at = call_place;
}

// Objects that look the same to the one who has to find them count as one leak.
using Leak = std::tuple<Kind, int, std::string>;
struct Size {
  std::size_t count = 0, bytes = 0;
};

std::map<Leak, Size> leaks() {
  std::map<Leak, Size> found;
  for (const auto& [address, object] : known().objects) {
    // A broken device frees nothing any more, and takes all it has with it.
    if (!object.is_live || device_at(object.device).sticky.load() != cudaSuccess) continue;
    Size& size = found[{object.kind, object.device, place_text(object.made_at)}];
    ++size.count;
    size.bytes += object.bytes;
  }
  return found;
}

bool report_leaks() {
  const auto found = leaks();
  for (const auto& [leak, size] : found) {
    const auto& [kind, device, place] = leak;
    const Words& words = words_of(kind);
    const std::string bytes = size.bytes > 0 ? " with " + std::to_string(size.bytes) + " bytes" : "";
    report("leak: %zu %s%s of cuda:%d%s, %s at %s, never %s", size.count, words.one, size.count > 1 ? "s" : "", device,
           bytes.c_str(), words.made, place.c_str(), words.ended);
  }
  return !found.empty();
}

bool report_unread_errors() {
  bool any = false;
  for (const auto& [thread, left] : known().errors) {
    any = true;
    report("unread error: %s (%d), returned by the call at %s; cudaGetLastError was not called after it",
           cudaGetErrorName(left.error), left.error, place_text(left.place).c_str());
  }
  for (const auto& device : machine->devices) {
    const cudaError_t sticky = device->sticky.load();
    if (sticky == cudaSuccess || device->sticky_was_returned.load()) continue;
    any = true;
    report("unread error: cuda:%d has %s (%d), and no call has returned it", device->index, cudaGetErrorName(sticky),
           sticky);
  }
  return any;
}

// Runs behind all of the program's static destructors.
[[gnu::destructor]] void report_what_is_left() {
  if (!machine_ready.load(std::memory_order_acquire) || !machine->settings.leaks) return;
  const std::lock_guard lock(known().mutex);
  const bool leaked = report_leaks(), unread = report_unread_errors();
  if (!leaked && !unread) return;
  (void)std::fflush(nullptr);
  std::_Exit(1);
}

}  // namespace

void made(Kind kind, const void* object, int device, std::size_t bytes) {
  const std::lock_guard lock(known().mutex);
  auto& objects = known().objects;
  const std::uintptr_t begin = address_of(object);
  const auto at = objects.lower_bound(begin);
  const bool is_known = at != objects.end() && at->first == begin;
  auto behind = is_known ? std::next(at) : at;
  // Objects that ended, and whose memory this one has.
  while (behind != objects.end() && behind->first < begin + bytes) behind = objects.erase(behind);
  const Object now{kind, device, bytes, call_place, {}};
  if (is_known) {
    at->second = now;  // the usual case: pool memory comes back again and again
  } else {
    objects.emplace_hint(behind, begin, now);
  }
}

void ended(const void* object) {
  const std::lock_guard lock(known().mutex);
  const auto found = known().objects.find(address_of(object));
  if (found != known().objects.end()) end(found->second);
}

void ended_all(Kind kind, int device) {
  const std::lock_guard lock(known().mutex);
  for (auto& [address, object] : known().objects) {
    if (object.is_live && object.kind == kind && object.device == device) end(object);
  }
}

std::string history(const void* pointer) {
  const std::lock_guard lock(known().mutex);
  auto after = known().objects.upper_bound(address_of(pointer));
  if (after == known().objects.begin()) return {};
  const auto& [begin, object] = *--after;
  const std::size_t offset = address_of(pointer) - begin;
  if (offset > object.bytes) return {};
  const Words& words = words_of(object.kind);
  std::string text =
      object.bytes > 0
          ? std::to_string(object.bytes) + " bytes of " +
                (object.kind == Kind::pinned_memory ? "pinned memory" : "cuda:" + std::to_string(object.device))
          : std::string(words.one) + " of cuda:" + std::to_string(object.device);
  if (offset > 0) text = std::to_string(offset) + " bytes behind the start of " + text;
  text += std::string(", ") + words.made + " at " + place_text(object.made_at);
  if (!object.is_live) text += std::string(", ") + words.ended + " at " + place_text(object.ended_at);
  return text;
}

cudaError_t refuse_free(const char* call, const void* pointer) {
  const std::string text = history(pointer);
  report("%s(%p) at %s: no allocation that this call frees starts there (%s)", call, pointer,
         place_text(call_place).c_str(), text.empty() ? "no memory of this machine" : text.c_str());
  return cudaErrorInvalidValue;
}

void error_left(cudaError_t error) {
  if (!machine_ready.load(std::memory_order_acquire)) return;
  bool is_sticky = false;
  for (const auto& device : machine->devices) {
    if (device->sticky.load(std::memory_order_relaxed) != error) continue;
    device->sticky_was_returned.store(true, std::memory_order_relaxed);
    is_sticky = true;
  }
  if (is_sticky) return;
  const std::lock_guard lock(known().mutex);
  known().errors.insert_or_assign(std::this_thread::get_id(), LeftError{error, call_place});
}

void error_read() {
  const std::lock_guard lock(known().mutex);
  known().errors.erase(std::this_thread::get_id());
}

}  // namespace sim::objects
