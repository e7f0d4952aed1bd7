// SPDX-License-Identifier: Apache-2.0
// Runs one test case of this program in a process of its own: for the environment, which is read once, and for errors
// that a process does not survive.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace fanout::test {

struct ChildResult {
  int exit_status = -1;  // -1 when a signal ended it
  int signal = 0;
  std::string output;  // stdout and stderr
};

/// Variables are set in the child only; a null value removes one.
using Environment = std::vector<std::pair<const char*, const char*>>;
ChildResult run_in_child(const std::string& test_case, const Environment& environment = {});

}  // namespace fanout::test
