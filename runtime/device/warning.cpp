// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/warning.h"

#include <cstdio>
#include <mutex>
#include <utility>

namespace fanout {
namespace {

struct Installed {
  std::mutex lock;
  WarningHandler handler;
};

// Not destroyed: threads may warn while the process ends.
Installed& installed() {
  static auto& made = *new Installed;
  return made;
}

}  // namespace

void warn(const std::string& text) {
  WarningHandler handler;
  {
    const std::lock_guard guard(installed().lock);
    handler = installed().handler;
  }
  if (handler) return handler(text);  // without the lock, so that it may warn or be replaced
  std::fputs(("fanout: warning: " + text + "\n").c_str(), stderr);
}

WarningHandler set_warning_handler(WarningHandler handler) {
  const std::lock_guard guard(installed().lock);
  return std::exchange(installed().handler, std::move(handler));
}

}  // namespace fanout
