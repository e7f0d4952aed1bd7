// SPDX-License-Identifier: Apache-2.0
#include "runtime/comm/communicator.h"

#include <catch2/catch.hpp>

#include "runtime/device/context.h"
#include "runtime/device/error.h"
#include "runtime/tensor/tensor.h"

using namespace fanout;

TEST_CASE("broadcast copies rank 0's bytes to every rank, in the order of the list") {
  const std::vector<Device> devices{Device(2), Device(0), Device(3)};
  Communicator& communicator = Communicator::of(devices);
  std::vector<Tensor> tensors;
  std::vector<void*> places;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    tensors.push_back(full({1000}, rank == 0 ? 7 : -1, DType::f32, devices[rank]));
    places.push_back(tensors.back().raw_data());
  }
  communicator.broadcast(places, tensors[0].bytes());
  communicator.wait_for_collectives();
  for (const Tensor& tensor : tensors) CHECK(to_vector<float>(tensor) == std::vector<float>(1000, 7.0F));
}

TEST_CASE("reduce sums rank numbers exactly on rank 0 for lengths around the edges, in place and beside") {
  for (const int world : {2, 3, 4}) {
    std::vector<Device> devices;
    for (int index = 0; index < world; ++index) devices.emplace_back(index);
    Communicator& communicator = Communicator::of(devices);
    CHECK(communicator.world_size() == world);
    for (const std::int64_t length : {1, 31, 32, 33, 1023, 1025}) {
      for (const bool in_place : {true, false}) {
        std::vector<Tensor> tensors;
        std::vector<const void*> places;
        for (int rank = 0; rank < world; ++rank) {
          tensors.push_back(full({length}, rank + 1, DType::f64, devices[static_cast<std::size_t>(rank)]));
          places.push_back(tensors.back().raw_data());
        }
        const Tensor result = in_place ? tensors[0] : full({length}, 0, DType::f64, devices[0]);
        communicator.reduce(places, result.raw_data(), length, DType::f64);
        communicator.wait_for_collectives();
        const double sum = world * (world + 1) / 2.0;
        CHECK(to_vector<double>(result) == std::vector<double>(static_cast<std::size_t>(length), sum));
        CHECK(to_vector<double>(tensors[1]) == std::vector<double>(static_cast<std::size_t>(length), 2.0));
      }
    }
  }
}

TEST_CASE("one list of devices has one communicator, another order is another one") {
  CHECK(&Communicator::of({Device(0), Device(1)}) == &Communicator::of({Device(0), Device(1)}));
  CHECK(&Communicator::of({Device(0), Device(1)}) != &Communicator::of({Device(1), Device(0)}));
}

TEST_CASE("a device that is listed twice is NCCL's error") {
  CHECK_THROWS_AS(Communicator({Device(0), Device(0)}), NcclError);
}
