// SPDX-License-Identifier: Apache-2.0
// When unlike devices are warned of; this program runs on devices with 16, 16 and 4 GiB of memory.
#include <catch2/catch.hpp>

#include "runtime/device/warning.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/parallel/data_parallel.h"
#include "tests/conformance/comparison.h"

using namespace fanout;
using namespace fanout::test;

TEST_CASE("unlike devices are warned of once, when the wrapper is made, and never by the functional form") {
  int warnings = 0;
  const WarningHandler former = set_warning_handler([&](const std::string&) { ++warnings; });
  struct Doubles {
    void visit(Visitor&) {}
    Tensor operator()(const Tensor& x) const { return x * 2.0; }
  } module;
  DataParallel parallel(module);
  CHECK(warnings == 1);
  for (int step = 0; step < 3; ++step) (void)parallel(numbers({6, 2}));
  CHECK(warnings == 1);
  const DataParallel alike(module, {1, 0}), alone(module, {2});
  CHECK(warnings == 1);
  for (int step = 0; step < 3; ++step) (void)data_parallel(module, {}, {}, numbers({6, 2}));
  CHECK(warnings == 1);
  set_warning_handler(former);
}
