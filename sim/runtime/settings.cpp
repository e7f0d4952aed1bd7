// SPDX-License-Identifier: Apache-2.0
// Parses FANOUT_SIM_*. No silent fallback: what cannot be read is an error of the first call.
#include "sim/runtime/settings.h"

#include <cctype>
#include <cstdlib>
#include <cstring>

#include "sim/device/switch.h"
#include "sim/runtime/report.h"

namespace sim {
namespace {

bool refuse(const char* variable, const char* value, const char* allowed) {
  report("%s is '%s'; allowed: %s", variable, value, allowed);
  return false;
}

// The whole text as a decimal number, without sign or blanks.
std::optional<std::uint64_t> parse_number(const char* text, const char** end) {
  if (!std::isdigit(static_cast<unsigned char>(*text))) return std::nullopt;
  char* stopped = nullptr;
  errno = 0;
  const std::uint64_t number = std::strtoull(text, &stopped, 10);
  if (errno != 0) return std::nullopt;
  *end = stopped;
  return number;
}

bool read_device_count(int* devices) {
  const char* text = std::getenv("FANOUT_SIM_DEVICES");
  if (!text) return true;
  const char* end = text;
  const auto number = parse_number(text, &end);
  if (!number || *end || *number > kMaxDevices) return refuse("FANOUT_SIM_DEVICES", text, "0 to 16");
  *devices = static_cast<int>(*number);
  return true;
}

// Bytes with an optional suffix K, M or G, up to the end of the text or a comma.
std::optional<std::uint64_t> parse_bytes(const char* text, std::uint64_t max_bytes, const char** end) {
  const auto number = parse_number(text, end);
  const char* const suffixes = "KMG";
  const char* suffix =
      number && **end ? std::strchr(suffixes, std::toupper(static_cast<unsigned char>(**end))) : nullptr;
  const int shift = suffix ? static_cast<int>(suffix - suffixes + 1) * 10 : 0;
  if (suffix) ++*end;
  const bool complete = number && (**end == 0 || **end == ',');
  if (!complete || *number == 0 || *number > (max_bytes >> shift)) return std::nullopt;
  return *number << shift;
}

bool read_memory(std::uint64_t max_bytes, int devices, std::vector<std::uint64_t>* bytes) {
  const char* text = std::getenv("FANOUT_SIM_MEMORY");
  if (!text) return true;
  bytes->clear();
  for (const char* rest = text;; ++rest) {
    const char* end = rest;
    const auto one = parse_bytes(rest, max_bytes, &end);
    if (!one) {
      const std::string allowed = "bytes with an optional suffix K, M or G, from 1 to " +
                                  std::to_string(max_bytes >> 30) + "G; one value, or one for each device as in 16G,8G";
      return refuse("FANOUT_SIM_MEMORY", text, allowed.c_str());
    }
    bytes->push_back(*one);
    if (*end == 0) break;
    rest = end;
  }
  if (bytes->size() == 1 || bytes->size() == static_cast<std::size_t>(devices)) return true;
  const std::string allowed = "one value, or one for each of the " + std::to_string(devices) +
                              " devices (FANOUT_SIM_DEVICES), not " + std::to_string(bytes->size());
  return refuse("FANOUT_SIM_MEMORY", text, allowed.c_str());
}

// An empty value counts as unset.
bool read_switch(const char* variable, bool* value) {
  const char* text = std::getenv(variable);
  if (!text || *text == 0) return true;
  const std::optional<bool> on = parse_switch(text);
  if (!on) return refuse(variable, text, "0, false, off or no, and 1, true, on or yes");
  *value = *on;
  return true;
}

bool read_mode(bool* late) {
  const char* text = std::getenv("FANOUT_SIM_MODE");
  *late = text && std::strcmp(text, "late") == 0;
  if (!text || *late || std::strcmp(text, "eager") == 0) return true;
  return refuse("FANOUT_SIM_MODE", text, "eager or late");
}

bool read_seed(std::uint64_t* seed) {
  const char* text = std::getenv("FANOUT_SIM_SEED");
  if (!text) return true;
  const char* end = text;
  const auto number = parse_number(text, &end);
  if (!number || *end) return refuse("FANOUT_SIM_SEED", text, "a whole number from 0");
  *seed = *number;
  return true;
}

// The two that other parts read where they need them are looked at here, so that a mistake is found at the first call.
bool lanes_are_known() {
  const char* text = std::getenv("FANOUT_SIM_LANES");
  if (!text || std::strcmp(text, "one") == 0 || std::strcmp(text, "full") == 0) return true;
  return refuse("FANOUT_SIM_LANES", text, "one or full");
}

bool timeout_is_known() {
  const char* text = std::getenv("FANOUT_SIM_NCCL_TIMEOUT");
  if (!text) return true;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (end != text && *end == 0 && seconds > 0 && seconds <= 86400) return true;
  return refuse("FANOUT_SIM_NCCL_TIMEOUT", text, "seconds above 0, at most 86400");
}

bool read_pairs(Settings* settings) {
  const char* text = std::getenv("FANOUT_SIM_NO_PEER");
  if (!text || *text == 0) return true;
  if (std::strcmp(text, "all") == 0) {
    settings->peer_access = false;
    return true;
  }
  for (const char* rest = text;; ++rest) {
    const char* end = rest;
    const auto first = parse_number(rest, &end);
    const auto second = first && *end == '-' ? parse_number(end + 1, &end) : std::nullopt;
    if (!second || (*end != 0 && *end != ',') || *first >= kMaxDevices || *second >= kMaxDevices)
      return refuse("FANOUT_SIM_NO_PEER", text, "all, or pairs of devices of the machine as in 0-1,2-3");
    settings->pairs_without.emplace_back(*first, *second);
    if (*end == 0) return true;
    rest = end;
  }
}

bool read_faults(std::vector<faults::Fault>* requested) {
  const char* text = std::getenv("FANOUT_SIM_FAULTS");
  if (!text) return true;
  auto parsed = faults::parse(text);
  if (!parsed) return refuse("FANOUT_SIM_FAULTS", text, faults::kAllowed);
  *requested = std::move(*parsed);
  return true;
}

}  // namespace

std::optional<Settings> read_settings(std::uint64_t max_memory_bytes) {
  Settings settings;
  // Every variable is looked at, so that one run shows all mistakes.
  bool good = read_device_count(&settings.devices);
  good &= read_memory(max_memory_bytes, settings.devices, &settings.memory_bytes);
  good &= read_switch("FANOUT_SIM_POISON", &settings.poison);
  good &= read_switch("FANOUT_SIM_PROTECT", &settings.protect);
  good &= read_switch("FANOUT_SIM_LEAKS", &settings.leaks);
  good &= read_switch("FANOUT_SIM_RACES", &settings.races);
  good &= read_mode(&settings.late);
  good &= read_seed(&settings.seed);
  good &= read_pairs(&settings);
  good &= read_faults(&settings.faults);
  good &= lanes_are_known();
  good &= timeout_is_known();
  if (!good) return std::nullopt;
  const char* blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  settings.launch_blocking = blocking && std::strcmp(blocking, "1") == 0;
  settings.late = settings.late && !settings.launch_blocking;  // then every launch waits
  settings.visible = visible_devices(std::getenv("CUDA_VISIBLE_DEVICES"), settings.devices);
  return settings;
}

}  // namespace sim
