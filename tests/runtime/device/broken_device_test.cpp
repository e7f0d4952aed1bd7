// SPDX-License-Identifier: Apache-2.0
// A simulated device that breaks repeats its error at every call; it is said once. Each case in a process of its own.
#include <catch2/catch.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/device/error.h"
#include "runtime/tensor/copy.h"
#include "sim/faults.h"
#include "tests/platform/api/child_process.h"

using namespace fanout;
using Catch::Matchers::Contains;

namespace {

std::size_t count_of(const std::string& part, const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

// An operation of cuda:1 that nobody waits for breaks it; then three of its tensors are released.
void break_and_release() {
  const std::vector<float> values(8, 1);
  std::vector<Tensor> tensors;
  for (int i = 0; i < 3; ++i) tensors.push_back(copied_to(from_vector(values, {8}), Device(1)));
  sim::inject_faults("sticky@1");
  tensors[0] = zeros({8}, DType::f32, Device(1));
}

}  // namespace

TEST_CASE("child: releases alone", "[.]") {
  break_and_release();
}
TEST_CASE("an error that only releases have met is said once, at exit") {
  const test::ChildResult child = test::run_in_child("child: releases alone");
  INFO(child.output);
  CHECK(count_of("failed while releasing", child.output) == 1);
  CHECK_THAT(child.output, Contains("fanout: cudaFreeAsync failed while releasing: unspecified launch failure "
                                    "(cudaErrorLaunchFailure)"));
}

TEST_CASE("child: a call after releases", "[.]") {
  const Tensor kept = copied_to(from_vector(std::vector<float>(8, 1), {8}), Device(1));
  break_and_release();
  try {
    (void)copied_to(kept, Device(0));
  } catch (const CudaError& error) {
    std::printf("thrown: %s\n", error.what());
  }
}
TEST_CASE("an error that releases have met first is left to the call that throws, which names the device") {
  const test::ChildResult child = test::run_in_child("child: a call after releases");
  INFO(child.output);
  CHECK(count_of("failed while releasing", child.output) == 0);
  CHECK_THAT(child.output, Contains("thrown: "));
  CHECK_THAT(child.output, Contains("failed: unspecified launch failure (cudaErrorLaunchFailure) on cuda:1"));
}
