// SPDX-License-Identifier: Apache-2.0
// What the words of an on/off variable mean.
#pragma once

#include <strings.h>

#include <optional>

namespace sim {

/// 1, true, on, yes; 0, false, off, no; in any case. Nothing for null and for other texts.
inline std::optional<bool> parse_switch(const char* text) {
  if (!text) return std::nullopt;
  for (const char* word : {"1", "true", "on", "yes"})
    if (strcasecmp(text, word) == 0) return true;
  for (const char* word : {"0", "false", "off", "no"})
    if (strcasecmp(text, word) == 0) return false;
  return std::nullopt;
}

}  // namespace sim
