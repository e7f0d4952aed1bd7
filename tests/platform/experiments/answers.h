// SPDX-License-Identifier: Apache-2.0
// Questions that manuals leave open and only a real GPU can settle. Each answer is printed beside the guess that the
// simulated platform follows; where a GPU answers otherwise, the test fails there and the simulated platform is wrong.
#pragma once

#include <string>

#include "tests/platform/api/child_process.h"
#include "tests/platform/api/cuda_check.h"

namespace fanout::test {

/// For what CUDA calls undefined, or leaves to the driver: any answer is right, and is only printed.
inline constexpr long long kAny = -1000;

/// Prints "experiment 7: cudaMallocAsync of 0 bytes: 1 (guess 1)" and checks it.
void answer(int experiment, const std::string& question, long long value, long long guess);

/// Runs a child that answers questions and prints what it said. A child that ends in a signal answers `question` with
/// it, e.g. "signal 6".
void answer_in_child(int experiment, const std::string& question, const std::string& test_case,
                     const Environment& environment = {});

}  // namespace fanout::test
