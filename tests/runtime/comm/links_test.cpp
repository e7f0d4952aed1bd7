// SPDX-License-Identifier: Apache-2.0
// Links that break, on simulated devices. What is closed stays closed for the process, so each case has its own pair.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/link_check.h"
#include "runtime/device/error.h"
#include "runtime/device/links.h"
#include "runtime/device/warning.h"
#include "runtime/tensor/copy.h"
#include "sim/faults.h"

using namespace fanout;
using Catch::Matchers::Contains;

namespace {

// Collects warnings and removes the faults at the end.
class Faulty {
 public:
  explicit Faulty(const char* faults) {
    former_ = set_warning_handler([this](const std::string& text) { warnings_.push_back(text); });
    sim::inject_faults(faults);
  }
  ~Faulty() {
    sim::inject_faults("");
    set_warning_handler(former_);
  }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::vector<std::string> warnings_;
  WarningHandler former_;
};

std::vector<float> counting(std::size_t elements) {
  std::vector<float> values(elements);
  for (std::size_t i = 0; i < elements; ++i) values[i] = static_cast<float>(i) / 7;
  return values;
}

}  // namespace

TEST_CASE("copies over a link that is down arrive through the host, and one warning says so") {
  const Tensor source = copied_to(from_vector(counting(1000), {1000}), Device(0));
  const Faulty machine("down@0-1:2");
  for (int copies = 0; copies < 4; ++copies) CHECK(to_vector<float>(copied_to(source, Device(1))) == counting(1000));
  REQUIRE(machine.warnings().size() == 1);
  CHECK(machine.warnings()[0] ==
        "the link between cuda:0 and cuda:1 is not used any more, since it refused a copy "
        "(cudaErrorPeerAccessUnsupported); what they exchange goes through the host, which is slower");
  CHECK_FALSE(links_open({Device(1), Device(2), Device(0)}));
  CHECK(links_open({Device(1), Device(2)}));
}

TEST_CASE("a communicator whose link goes down sums the same bits by copies in rank order") {
  const std::vector<Device> devices{Device(2), Device(3), Device(0)};
  Communicator communicator(devices);
  std::vector<Tensor> terms;
  std::vector<const void*> places;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    std::vector<float> values = counting(501);
    for (float& value : values) value *= static_cast<float>(rank) + 0.3F;
    terms.push_back(copied_to(from_vector(values, {501}), devices[rank]));
    places.push_back(terms.back().raw_data());
  }
  const auto sum = [&] {
    const Tensor result = full({501}, 0, DType::f32, devices[0]);
    communicator.reduce(places, result.raw_data(), 501, DType::f32);
    communicator.wait_for_collectives();
    return to_vector<float>(result);
  };
  const std::vector<float> by_nccl = sum();
  const Faulty machine("down@2-3:1");
  CHECK(sum() == by_nccl);
  CHECK(sum() == by_nccl);
  REQUIRE(machine.warnings().size() == 2);
  CHECK_THAT(machine.warnings()[0], Contains("NCCL is not used any more among cuda:2, cuda:3, cuda:0"));
  CHECK_THAT(machine.warnings()[1], Contains("the link between cuda:2 and cuda:3"));
}

TEST_CASE("the check of links closes the one that delivers wrong bytes") {
  const Faulty machine("corrupt@1-3:1");
  comm::check_links({Device(1), Device(2), Device(3)});
  REQUIRE(machine.warnings().size() == 1);
  CHECK_THAT(machine.warnings()[0], Contains("1 of 65536 bytes sent from cuda:1 to cuda:3 arrived wrong"));
  CHECK(links_open({Device(1), Device(2)}));
  const Tensor source = copied_to(from_vector(counting(100), {100}), Device(1));
  CHECK(to_vector<float>(copied_to(source, Device(3))) == counting(100));
}
