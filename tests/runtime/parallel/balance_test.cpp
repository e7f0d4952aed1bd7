// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/balance.h"

#include <catch2/catch.hpp>

#include "runtime/device/warning.h"

using namespace fanout;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;

namespace {

constexpr std::uint64_t kGiB = 1ull << 30;

std::vector<Device> first_devices(int count) {
  std::vector<Device> devices;
  for (int index = 0; index < count; ++index) devices.emplace_back(index);
  return devices;
}

std::string text_of(const std::vector<std::uint64_t>& gibibytes, const std::vector<int>& multiprocessors) {
  std::vector<std::uint64_t> bytes;
  for (const std::uint64_t amount : gibibytes) bytes.push_back(amount * kGiB);
  return imbalance(first_devices(static_cast<int>(bytes.size())), bytes, multiprocessors).value_or("");
}

}  // namespace

TEST_CASE("an imbalance of memory is torch's warning, with both amounts") {
  CHECK_THAT(
      text_of({16, 8}, {100, 100}),
      Equals("There is an imbalance between your GPUs. You may want to exclude cuda:1 which has less than 75% of "
             "the memory or cores of cuda:0 (8.0 GiB of memory against 16.0 GiB of memory). You can do so by "
             "setting the device_ids argument to DataParallel, or by setting the CUDA_VISIBLE_DEVICES environment "
             "variable."));
}

TEST_CASE("less than 75 % is an imbalance, 75 % itself is none") {
  CHECK(text_of({16, 12}, {100, 75}).empty());
  CHECK_FALSE(text_of({16, 12}, {100, 74}).empty());
  CHECK(imbalance(first_devices(2), {4, 3}, {1, 1}) == std::nullopt);
  CHECK(imbalance(first_devices(2), {4 * kGiB, 3 * kGiB - 1}, {1, 1}) != std::nullopt);
}

TEST_CASE("memory is looked at first, then multiprocessors, and one warning is enough") {
  CHECK_THAT(text_of({16, 16}, {132, 66}), Contains("exclude cuda:1") && Contains("66 multiprocessors against 132"));
  CHECK_THAT(text_of({16, 4}, {66, 132}),
             Contains("exclude cuda:1") && Contains("4.0 GiB") && !Contains("multiprocessors"));
}

TEST_CASE("the first device with the least and the first with the most are named, by their own ids") {
  CHECK_THAT(text_of({8, 16, 4, 16, 4}, {1, 1, 1, 1, 1}), Contains("exclude cuda:2 ") && Contains("cores of cuda:1 "));
  CHECK_THAT(*imbalance({Device(5), Device(3)}, {1, 2}, {1, 1}), Contains("exclude cuda:5 ") && Contains("of cuda:3 "));
}

TEST_CASE("one device, none, or equal ones are balanced") {
  CHECK(text_of({16}, {100}).empty());
  CHECK(text_of({}, {}).empty());
  CHECK(text_of({16, 16, 16}, {100, 100, 100}).empty());
}

TEST_CASE("devices that are alike are not warned of") {
  int warnings = 0;
  const WarningHandler former = set_warning_handler([&](const std::string&) { ++warnings; });
  warn_if_unbalanced({Device(0), Device(1)});
  warn_if_unbalanced({});
  set_warning_handler(former);
  CHECK(warnings == 0);
}
