// SPDX-License-Identifier: Apache-2.0
// Where in the program a call was made, for reports.
#pragma once

namespace sim {

/// A line of source; as a default argument, the caller's.
struct SourceLine {
  const char* file = "";
  int line = 0;
  static constexpr SourceLine here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// The place of this thread's last call that queues work, makes, frees or destroys something.
[[gnu::tls_model("initial-exec")]] inline constinit thread_local SourceLine call_place{};

[[gnu::always_inline]] inline void called_at(const char* file, int line) {
  call_place = {file, line};
}

}  // namespace sim
