// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/warning.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <thread>
#include <vector>

using namespace fanout;

TEST_CASE("warn gives the text to the handler that is installed, and the former one comes back") {
  std::string first, second;
  const WarningHandler printing = set_warning_handler([&](const std::string& text) { first += text; });
  CHECK_FALSE(printing);
  warn("a");
  const WarningHandler former = set_warning_handler([&](const std::string& text) { second += text; });
  warn("b");
  former("c");
  set_warning_handler(printing);
  CHECK(first == "ac");
  CHECK(second == "b");
}

TEST_CASE("without a handler a warning is a line on standard error") {
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  std::fflush(stderr);
  std::FILE* const original = stderr;
  stderr = file;
  warn("the batch is small");
  stderr = original;
  std::rewind(file);
  char line[100] = "";
  CHECK(std::fgets(line, sizeof line, file) != nullptr);
  CHECK(std::string(line) == "fanout: warning: the batch is small\n");
  std::fclose(file);
}

TEST_CASE("threads may warn while handlers are replaced, and a handler may warn itself") {
  std::atomic<int> told{0};
  const auto count = [&](const std::string&) { ++told; };
  const WarningHandler former = set_warning_handler(count);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int j = 0; j < 100; ++j) warn("again");
    });
  }
  for (int j = 0; j < 100; ++j) set_warning_handler(count);
  for (std::thread& thread : threads) thread.join();
  CHECK(told == 400);
  set_warning_handler([&](const std::string& text) {
    if (text == "outer") warn("inner");
    ++told;
  });
  warn("outer");
  CHECK(told == 402);
  set_warning_handler(former);
}
