// SPDX-License-Identifier: Apache-2.0
#include "tests/platform/bugs/bug.h"

#include <fstream>

namespace fanout::test {
namespace {

// "file.cu:57" for each line that ends in the comment.
std::vector<std::string> places(const std::string& file, const std::string& name) {
  const std::string mark = "// bug: " + name;
  const std::string base = file.substr(file.rfind('/') + 1);
  std::vector<std::string> found;
  std::ifstream source(file);
  std::string line;
  for (int number = 1; std::getline(source, line); ++number) {
    if (line.ends_with(mark)) found.push_back(base + ":" + std::to_string(number));
  }
  return found;
}

}  // namespace

void check_bug(const char* file, const std::string& name, const std::vector<std::string>& report) {
  const Environment checks{{"FANOUT_SIM_POISON", "1"}, {"FANOUT_SIM_PROTECT", "1"},  {"FANOUT_SIM_RACES", "1"},
                           {"FANOUT_SIM_LEAKS", "1"},  {"FANOUT_SIM_LANES", "full"}, {"FANOUT_SIM_MODE", "eager"}};

  const ChildResult wrong = run_in_child("child: " + name + " wrong", checks);
  INFO("wrong:\n" << wrong.output);
  const std::vector<std::string> at = places(file, name);
  REQUIRE_FALSE(at.empty());
  for (const std::string& place : at) CHECK_THAT(wrong.output, Catch::Matchers::Contains(place));
  for (const std::string& text : report) CHECK_THAT(wrong.output, Catch::Matchers::Contains(text));

  const ChildResult right = run_in_child("child: " + name + " right", checks);
  INFO("right:\n" << right.output);
  CHECK(right.exit_status == 0);
  CHECK_THAT(right.output, !Catch::Matchers::Contains("fanout sim:"));
}

}  // namespace fanout::test
