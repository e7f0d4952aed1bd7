// SPDX-License-Identifier: Apache-2.0
// What fanout has to say that is no error.
#pragma once

#include <functional>
#include <string>

namespace fanout {

using WarningHandler = std::function<void(const std::string& text)>;

/// Gives `text` to the handler; without one it prints "fanout: warning: " and the text as one line on standard error.
/// From any thread.
void warn(const std::string& text);

/// Installs what `warn` calls from now on, for all threads, and returns the former handler; an empty function is the
/// printing one. A handler may be called by several threads at once, and still finish after it was replaced.
WarningHandler set_warning_handler(WarningHandler handler);

}  // namespace fanout
