// SPDX-License-Identifier: Apache-2.0
// CUDA_VISIBLE_DEVICES, each case in a process of its own, since it is read once.
#include <cstdio>
#include <sstream>
#include <string>

#include "tests/platform/api/child_process.h"
#include "tests/platform/api/cuda_check.h"

using namespace fanout::test;

namespace {

std::string uuid_of(int device) {
  cudaDeviceProp properties;
  REQUIRE_OK(cudaGetDeviceProperties(&properties, device));
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char hex[4];
    std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(properties.uuid.bytes[i]));
    text += hex;
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

using Uuids = std::vector<std::string>;

// The UUIDs that a child sees, in its order.
Uuids seen_with(const char* visible, const char* order = nullptr) {
  const ChildResult child = run_in_child("child: print the visible devices",
                                         {{"CUDA_VISIBLE_DEVICES", visible}, {"CUDA_DEVICE_ORDER", order}});
  INFO(child.output);
  REQUIRE(child.exit_status == 0);
  Uuids uuids;
  std::istringstream lines(child.output);
  for (std::string line; std::getline(lines, line);)
    if (line.rfind("visible ", 0) == 0) uuids.push_back(line.substr(8));
  return uuids;
}

const Uuids& all() {
  static const Uuids uuids = seen_with(nullptr);
  return uuids;
}

// On a machine with fewer devices an ordinal beyond the last ends the list.
Uuids devices(const std::vector<std::size_t>& ordinals) {
  Uuids uuids;
  for (std::size_t ordinal : ordinals) {
    if (ordinal >= all().size()) break;
    uuids.push_back(all()[ordinal]);
  }
  return uuids;
}

}  // namespace

TEST_CASE("child: print the visible devices", "[.]") {
  int count = 77;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice) {
    REQUIRE(count == 77);  // an out parameter stays as it was
    return;
  }
  REQUIRE(error == cudaSuccess);
  for (int device = 0; device < count; ++device) std::printf("visible %s\n", uuid_of(device).c_str());
}

TEST_CASE("without the variable all devices are visible, and their UUIDs differ") {
  REQUIRE(!all().empty());
  for (std::size_t i = 0; i < all().size(); ++i)
    for (std::size_t j = 0; j < i; ++j) REQUIRE(all()[i] != all()[j]);
}

TEST_CASE("the position in the list gives the new ordinal") {
  REQUIRE(seen_with("0") == devices({0}));
  REQUIRE(seen_with("1,0") == devices({1, 0}));
  REQUIRE(seen_with("2,1") == devices({2, 1}));
  REQUIRE(seen_with("3,1,2,0") == devices({3, 1, 2, 0}));
}

TEST_CASE("an empty list shows no device: error 100") {
  REQUIRE(seen_with("").empty());
}

TEST_CASE("the first invalid entry ends the list") {
  REQUIRE(seen_with("-1,0").empty());
  REQUIRE(seen_with("0,-1") == devices({0}));
  REQUIRE(seen_with("0,2,-1,1") == devices({0, 2}));
  REQUIRE(seen_with("0,1000,1") == devices({0}));
  REQUIRE(seen_with("one,2").empty());
  REQUIRE(seen_with("3,2,two") == devices({3, 2}));
}

TEST_CASE("numbers are read like strtoul") {
  REQUIRE(seen_with("1gpu2,2ampere") == devices({1, 2}));
  REQUIRE(seen_with("+1") == devices({1}));
  REQUIRE(seen_with(" 1, 0") == devices({1, 0}));
}

TEST_CASE("a device named twice leaves none") {
  REQUIRE(seen_with("0,1,2,1").empty());
}

TEST_CASE("UUIDs name devices, whole or by a prefix that fits one") {
  const std::size_t last = all().size() - 1;
  REQUIRE(seen_with(all()[last].c_str()) == devices({last}));
  REQUIRE(seen_with((all()[last].substr(0, 12) + "," + all()[0]).c_str()) ==
          (last == 0 ? Uuids{} : devices({last, 0})));
  if (last > 0) REQUIRE(seen_with("GPU-").empty());  // fits several
  REQUIRE(seen_with((all()[0] + ",GPU-00000000").c_str()) == devices({0}));
  REQUIRE(seen_with((all()[0] + ",1").c_str()) == devices({0}));
}

TEST_CASE("both device orders are accepted") {
  REQUIRE(seen_with("0", "PCI_BUS_ID").size() == 1);
  REQUIRE(seen_with("0", "FASTEST_FIRST").size() == 1);
}
