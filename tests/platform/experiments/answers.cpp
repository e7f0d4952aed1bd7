// SPDX-License-Identifier: Apache-2.0
#include "tests/platform/experiments/answers.h"

#include <cstdio>
#include <sstream>

namespace fanout::test {

void answer(int experiment, const std::string& question, long long value, long long guess) {
  const std::string beside = guess == kAny ? "any" : "guess " + std::to_string(guess);
  std::printf("experiment %d: %s: %lld (%s)\n", experiment, question.c_str(), value, beside.c_str());
  std::fflush(stdout);
  INFO("experiment " << experiment << ": " << question);
  if (guess != kAny) CHECK(value == guess);
}

void answer_in_child(int experiment, const std::string& question, const std::string& test_case,
                     const Environment& environment) {
  const ChildResult child = run_in_child(test_case, environment);
  std::istringstream lines(child.output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("experiment ")) std::printf("%s\n", line.c_str());
  }
  if (child.signal != 0) {
    std::printf("experiment %d: %s: signal %d (any)\n", experiment, question.c_str(), child.signal);
    return;
  }
  INFO(child.output);
  CHECK(child.exit_status == 0);
}

}  // namespace fanout::test
