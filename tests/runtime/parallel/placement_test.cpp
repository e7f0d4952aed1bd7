// SPDX-License-Identifier: Apache-2.0
// Device ids, and where the module must be.
#include "runtime/parallel/placement.h"

#include <catch2/catch.hpp>

#include "runtime/parallel/data_parallel.h"
#include "tests/runtime/parallel/test_nets.h"

using namespace fanout;
using namespace fanout::test;
using Catch::Matchers::Contains;

TEST_CASE("a module on another GPU than device_ids[0] is refused at construction, with every name and the ways out") {
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  Net module = seeded_on<Net>(Device(2));
  CHECK_THROWS_AS(DataParallel(module, {0, 1, 2}), PlacementError);
  CHECK_THROWS_WITH(
      DataParallel(module, {0, 1, 2}),
      "module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on "
      "device: cuda:2\n"
      "4 of 4 parameters and buffers are elsewhere:\n"
      "  first.weight [5, 6] on cuda:2\n"
      "  first.bias [5] on cuda:2\n"
      "  second.weight [4, 5] on cuda:2\n"
      "  second.bias [4] on cuda:2\n"
      "ways out:\n"
      "  move the module before the forward: to(module, Device(0))\n"
      "  or make cuda:2 the primary by putting it first: device_ids {2, 0, 1}\n"
      "  or, if a checkpoint put it there, load it with map_location \"cuda:0\"\n"
      "device ids count the devices that CUDA shows this process" +
          visibility_note());
}

TEST_CASE("without the check at construction a misplaced module is refused at the first forward, as in torch") {
  Net module = seeded_on<Net>(Device(1));
  DataParallelOptions options;
  options.check_at_construction = false;
  for (const std::vector<int>& ids : {std::vector<int>{0, 1}, {0}}) {
    DataParallel parallel(module, ids, options);
    CHECK_THROWS_WITH(parallel(numbers({4, 6})),
                      Contains("on device cuda:0 (device_ids[0]) but found one of them on device: cuda:1"));
  }
}

TEST_CASE("a module on the host may be wrapped, is refused at the forward, and works once it is moved") {
  Net module;
  DataParallel parallel(module, {1, 0});
  CHECK_THROWS_WITH(parallel(numbers({4, 6})),
                    Contains("on device cuda:1 (device_ids[0]) but found one of them on device: cpu"));
  to(module, Device(1));
  CHECK(parallel(numbers({4, 6})).shape() == Shape{4, 4});
  to(module, Device(0));
  CHECK_THROWS_WITH(parallel(numbers({4, 6})), Contains("found one of them on device: cuda:0"));
  to(module, Device(1));
  CHECK(parallel(numbers({4, 6})).shape() == Shape{4, 4});
}

TEST_CASE("one misplaced buffer among right parameters is found and named") {
  struct Normed {
    BatchNorm1d norm{3, {.dtype = DType::f64}};
    void visit(Visitor& member) { member("norm", norm); }
    Tensor operator()(const Tensor& x) const { return norm(x); }
  };
  Normed module = seeded_on<Normed>(Device(0)), elsewhere = seeded_on<Normed>(Device(1));
  module.norm.running_var = elsewhere.norm.running_var;
  CHECK_THROWS_WITH(
      DataParallel(module, {0, 1}),
      Contains("\n1 of 5 parameters and buffers are elsewhere:\n  norm.running_var [3] on cuda:1\nways out"));
}

TEST_CASE("the primary is the first id, whatever device is current") {
  Net module = seeded_on<Net>(Device(2));
  REQUIRE(cudaSetDevice(3) == cudaSuccess);
  DataParallel parallel(module, {2, 0, 1});
  CHECK(parallel(numbers({4, 6})).device() == Device(2));
  int current = -1;
  REQUIRE(cudaGetDevice(&current) == cudaSuccess);
  CHECK(current == 3);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

TEST_CASE("all ids that repeat, are unknown or negative are refused at once, with the valid range") {
  Net module = seeded_on<Net>(Device(0));
  const std::string range = ": this process sees " + std::to_string(device_count()) + " devices, ids 0 to " +
                            std::to_string(device_count() - 1) + visibility_note();
  CHECK_THROWS_WITH(DataParallel(module, {0, 1, 0}),
                    "device_ids lists 0 twice, at positions 0 and 2; each device can hold one replica" + range);
  CHECK_THROWS_WITH(DataParallel(module, {0, 99}), "device id 99 does not exist" + range);
  CHECK_THROWS_WITH(DataParallel(module, {-1}), "device id -1 does not exist" + range);
  CHECK_THROWS_WITH(DataParallel(module, {1, 99, 1, -1, 1, 99}),
                    "device ids -1 and 99 do not exist; device_ids lists 1 3 times, at positions 0, 2 and 4; "
                    "device_ids lists 99 twice, at positions 1 and 5; each device can hold one replica" +
                        range);
}

TEST_CASE("a placement error says that the current device does not choose the primary, where the two differ") {
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  Net module = seeded_on<Net>(Device(2));
  const std::string line = "\nthe current device (cuda:2) does not choose the primary; device_ids[0] does\n";
  CHECK_THROWS_WITH(DataParallel(module), !Contains("does not choose"));
  const DeviceGuard guard(Device(2));
  CHECK_THROWS_WITH(DataParallel(module), Contains(line));
}

TEST_CASE("without ids all visible devices are used in order") {
  Net module = seeded_on<Net>(Device(0));
  DataParallel parallel(module);
  REQUIRE(parallel.devices().size() == static_cast<std::size_t>(device_count()));
  for (int index = 0; index < device_count(); ++index)
    CHECK(parallel.devices()[static_cast<std::size_t>(index)] == Device(index));
}
