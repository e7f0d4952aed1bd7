// SPDX-License-Identifier: Apache-2.0
// From an address in the program's code to its place in the source.
#pragma once

#include <string>

namespace sim {

/// "at file.cu:12" of the instruction before `code`, or "in function f()" of a program without debug information.
/// Starts binutils' addr2line.
std::string code_text(const void* code);

}  // namespace sim
