// SPDX-License-Identifier: Apache-2.0
#include "sim/runtime/code_places.h"

#include <link.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace sim {
namespace {

std::uintptr_t program_base() {
  std::uintptr_t base = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        *static_cast<std::uintptr_t*>(out) = info->dlpi_addr;
        return 1;  // the first is the program itself
      },
      &base);
  return base;
}

std::string read_line(FILE* input) {
  std::string line;
  for (int c = std::fgetc(input); c != EOF && c != '\n'; c = std::fgetc(input)) line += static_cast<char>(c);
  return line;
}

}  // namespace

std::string code_text(const void* code) {
  const char* const unknown = "at an unknown place";
  char program[4096] = {}, command[5000];
  if (code == nullptr || readlink("/proc/self/exe", program, sizeof program - 1) < 0) return unknown;
  if (std::strchr(program, '\'') != nullptr) return unknown;  // it would end the quotes
  std::snprintf(command, sizeof command, "addr2line -Cfe '%s' 0x%zx 2>/dev/null", program,
                reinterpret_cast<std::uintptr_t>(code) - program_base() - 1);
  FILE* const output = popen(command, "r");
  if (output == nullptr) return unknown;
  const std::string function = read_line(output), line = read_line(output);
  pclose(output);
  if (line.find('?') == std::string::npos && !line.empty()) return "at " + line.substr(0, line.find(' '));
  return function.empty() || function[0] == '?' ? unknown : "in function " + function;
}

}  // namespace sim
