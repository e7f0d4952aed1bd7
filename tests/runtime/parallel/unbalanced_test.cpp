// SPDX-License-Identifier: Apache-2.0
// Devices with unlike memory: this program runs with FANOUT_SIM_MEMORY=16G,12G,4G,16G.
#include <catch2/catch.hpp>

#include "runtime/device/warning.h"
#include "runtime/parallel/balance.h"

using namespace fanout;
using Catch::Matchers::Contains;

namespace {

std::vector<std::string> warnings_for(const std::vector<Device>& devices) {
  std::vector<std::string> texts;
  const WarningHandler former = set_warning_handler([&](const std::string& text) { texts.push_back(text); });
  warn_if_unbalanced(devices);
  set_warning_handler(former);
  return texts;
}

}  // namespace

TEST_CASE("a device with a quarter of the others' memory is warned of once, among the devices that are used") {
  const std::vector<std::string> texts = warnings_for({Device(0), Device(1), Device(2), Device(3)});
  REQUIRE(texts.size() == 1);
  CHECK_THAT(texts[0],
             Contains("exclude cuda:2 ") && Contains("cores of cuda:0 (4.0 GiB of memory against 16.0 GiB of memory)"));
  CHECK(warnings_for({Device(1), Device(0), Device(3)}).empty());
  CHECK(warnings_for({Device(2)}).empty());
}
