// SPDX-License-Identifier: Apache-2.0
#include "sim/faults.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "sim/runtime/faults.h"
#include "sim/runtime/machine.h"
#include "sim/runtime/protection.h"
#include "sim/runtime/report.h"

namespace sim::faults {
namespace {

enum class Where : std::uint8_t { device, device_or_host, pair };
struct Name {
  std::string_view text;
  Kind kind;
  Where where;
  const char* effect;
};
constexpr std::array<Name, 11> kNames = {{
    {"alloc", Kind::alloc, Where::device_or_host, "this allocation fails with error 2"},
    {"launch", Kind::launch, Where::device, "this launch returns error 701 and nothing runs"},
    {"copy", Kind::copy, Where::device, "this copy or fill returns error 999 and moves nothing"},
    {"sticky", Kind::sticky, Where::device, "the device has error 719 from this operation on"},
    {"down", Kind::down, Where::pair, "the link is down from now on"},
    {"slow", Kind::slow, Where::pair, "each transfer takes 5 ms longer from now on"},
    {"corrupt", Kind::corrupt, Where::pair, "each transfer arrives with a bit flipped from now on"},
    {"corrupt-once", Kind::corrupt_once, Where::pair, "this transfer arrives with a bit flipped"},
    {"init", Kind::init, Where::device, "this communicator cannot be set up"},
    {"stall", Kind::stall, Where::device, "the rank never arrives at this collective"},
    {"die", Kind::die, Where::device, "the rank dies at this collective"},
}};

const Name& name_of(Kind kind) {
  return *std::ranges::find(kNames, kind, &Name::kind);
}

struct Requested {
  std::mutex mutex;
  std::vector<Fault> faults;
};
Requested& requested() {
  static auto& instance = *new Requested;
  return instance;
}

template <class Number>
bool take_number(std::string_view* text, Number* number) {
  const auto [rest, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc{} || text->starts_with('-')) return false;
  text->remove_prefix(static_cast<std::size_t>(rest - text->data()));
  return true;
}

bool take(std::string_view* text, std::string_view token) {
  if (!text->starts_with(token)) return false;
  text->remove_prefix(token.size());
  return true;
}

bool take_device(std::string_view* text, int* device) {
  return take_number(text, device) && *device < kMaxDevices;
}

// What follows the '@', up to the count.
bool take_place(std::string_view* text, Where where, Fault* fault) {
  if (where == Where::device_or_host && take(text, "host")) {
    fault->first = fault->second = kHost;
    return true;
  }
  if (!take_device(text, &fault->first)) return false;
  fault->second = fault->first;
  if (where != Where::pair) return true;
  return take(text, "-") && take_device(text, &fault->second) && fault->second != fault->first;
}

std::optional<Fault> parse_one(std::string_view text) {
  Fault fault;
  fault.text = text;
  const std::size_t at = text.find('@');
  if (at == std::string_view::npos) return std::nullopt;
  const auto name = std::ranges::find(kNames, text.substr(0, at), &Name::text);
  if (name == kNames.end()) return std::nullopt;
  fault.kind = name->kind;
  text.remove_prefix(at + 1);
  if (!take_place(&text, name->where, &fault)) return std::nullopt;
  if (take(&text, ":") && (!take_number(&text, &fault.number) || fault.number == 0)) return std::nullopt;
  return text.empty() ? std::optional(fault) : std::nullopt;
}

void say(Fault& fault) {
  if (std::exchange(fault.was_said, true)) return;
  report("fault on request: %s: %s", fault.text.c_str(), name_of(fault.kind).effect);
}

bool is_between(const Fault& fault, int a, int b) {
  return (fault.first == a && fault.second == b) || (fault.first == b && fault.second == a);
}

int in_machine(int device) {
  return device == kHost ? kHost : device_at(device).machine_index;
}

}  // namespace

const char* const kAllowed =
    "a list of KIND@WHERE or KIND@WHERE:N, N from 1; alloc, launch, copy, sticky, init, stall and die with a device of "
    "the machine as in alloc@1:3 (alloc also with host); down, slow, corrupt and corrupt-once with two as in down@0-1";

std::optional<std::vector<Fault>> parse(const char* text) {
  std::vector<Fault> faults;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    std::optional<Fault> fault = parse_one(rest.substr(0, comma));
    const bool ends_in_comma = comma + 1 == rest.size();
    if (!fault || ends_in_comma) return std::nullopt;
    faults.push_back(std::move(*fault));
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return faults;
}

void replace(std::vector<Fault> faults) {
  const std::lock_guard lock(requested().mutex);
  any_requested.store(!faults.empty(), std::memory_order_relaxed);
  requested().faults = std::move(faults);
}

bool strikes_counted(Kind kind, int device) {
  const std::lock_guard lock(requested().mutex);
  bool struck = false;
  for (Fault& fault : requested().faults) {
    if (fault.kind != kind || fault.first != in_machine(device) || ++fault.seen != fault.number) continue;
    say(fault);
    struck = true;
  }
  return struck;
}

Transfer transfer_counted(int a, int b) {
  Transfer transfer;
  if (a == b) return transfer;
  const std::lock_guard lock(requested().mutex);
  for (Fault& fault : requested().faults) {
    bool* const effect = fault.kind == Kind::down                                          ? &transfer.is_down
                         : fault.kind == Kind::slow                                        ? &transfer.is_slow
                         : fault.kind == Kind::corrupt || fault.kind == Kind::corrupt_once ? &transfer.is_corrupt
                                                                                           : nullptr;
    if (effect == nullptr || !is_between(fault, in_machine(a), in_machine(b))) continue;
    ++fault.seen;
    const bool struck = fault.kind == Kind::corrupt_once ? fault.seen == fault.number : fault.seen >= fault.number;
    if (!struck) continue;
    say(fault);
    *effect = true;
  }
  return transfer;
}

void Transfer::finish(void* target, std::size_t bytes) const {
  if (is_slow) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (!is_corrupt || bytes == 0) return;
  const protection::Opened opened = protection::open_for(target);
  static_cast<unsigned char*>(target)[bytes / 2] ^= 0x10;
}

bool is_down(int a, int b) {
  if (!any()) return false;
  const std::lock_guard lock(requested().mutex);
  return std::ranges::any_of(requested().faults, [&](const Fault& fault) {
    return fault.kind == Kind::down && is_between(fault, in_machine(a), in_machine(b)) && fault.seen >= fault.number;
  });
}

bool breaks_counted(int device) {
  if (!strikes_counted(Kind::sticky, device)) return false;
  cudaError_t none = cudaSuccess;
  device_at(device).sticky.compare_exchange_strong(none, cudaErrorLaunchFailure);
  return true;
}

}  // namespace sim::faults

void sim::inject_faults(const char* text) {
  auto parsed = faults::parse(text);
  if (!parsed) stop("inject_faults(\"%s\"): allowed: %s", text, faults::kAllowed);
  faults::replace(std::move(*parsed));
}
