// SPDX-License-Identifier: Apache-2.0
// Reports go to stderr in one write, so that lines of several threads do not mix.
#include "sim/runtime/report.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace sim {
namespace {
void print(const char* prefix, const char* format, va_list arguments) {
  char line[2048];
  int length = std::snprintf(line, sizeof line, "%s", prefix);
  length += std::vsnprintf(line + length, sizeof line - length - 1, format, arguments);
  if (length > static_cast<int>(sizeof line) - 2) length = sizeof line - 2;
  line[length++] = '\n';
  if (write(STDERR_FILENO, line, length) < 0) return;
}
}  // namespace

std::string place_text(const SourceLine& place) {
  return place.line == 0 ? "an unknown place" : std::string(place.file) + ":" + std::to_string(place.line);
}

void report(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print("fanout sim: ", format, arguments);
  va_end(arguments);
}

void stop(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string prefix = "fanout sim: undefined in CUDA, stopped at " + place_text(call_place) + ": ";
  print(prefix.c_str(), format, arguments);
  va_end(arguments);
  std::abort();
}

}  // namespace sim
