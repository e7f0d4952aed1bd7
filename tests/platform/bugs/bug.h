// SPDX-License-Identifier: Apache-2.0
// A small program with one mistake, and its corrected twin. The first must be reported, with the place of the mistake;
// the second must be silent. Each runs in a process of its own, under every check that the simulated machine has.
#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/platform/api/child_process.h"
#include "tests/platform/api/cuda_check.h"

namespace fanout::test {

/// Runs the child "child: NAME wrong" and expects each text of `report` in what it says, and FILE:LINE of every line of
/// `file` that ends in the comment `// bug: NAME`, of which there must be one; then "child: NAME right" and expects
/// exit status 0 and no word of the simulated machine.
void check_bug(const char* file, const std::string& name, const std::vector<std::string>& report);

}  // namespace fanout::test

/// FANOUT_BUG(late_free, "text", "another text") { ... does it right if `corrected` ... }
/// What the program does before its first call may set the environment.
#define FANOUT_BUG(name, ...)                                                            \
  static void name(bool corrected);                                                      \
  TEST_CASE("child: " #name " wrong", "[.]") {                                           \
    name(false);                                                                         \
  }                                                                                      \
  TEST_CASE("child: " #name " right", "[.]") {                                           \
    name(true);                                                                          \
  }                                                                                      \
  TEST_CASE("bug: " #name " is reported, and its corrected twin is silent", "[eager]") { \
    fanout::test::check_bug(__FILE__, #name, {__VA_ARGS__});                             \
  }                                                                                      \
  static void name([[maybe_unused]] bool corrected)
