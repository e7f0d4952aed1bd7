// SPDX-License-Identifier: Apache-2.0
// fork and exec of this program with a test case's name.
#include "tests/platform/api/child_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

namespace fanout::test {

ChildResult run_in_child(const std::string& test_case, const Environment& environment) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    for (const auto& [name, value] : environment) value ? setenv(name, value, 1) : unsetenv(name);
    execl("/proc/self/exe", "child", test_case.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  close(ends[1]);
  ChildResult result;
  char buffer[4096];
  for (ssize_t bytes; (bytes = read(ends[0], buffer, sizeof buffer)) > 0;)
    result.output.append(buffer, static_cast<std::size_t>(bytes));
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) result.exit_status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

}  // namespace fanout::test
