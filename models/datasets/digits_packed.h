// SPDX-License-Identifier: Apache-2.0
// The stored data/digits.csv.gz, defined by a source that the build makes from that file.
#pragma once

#include <cstdint>
#include <span>

namespace fanout::models {

extern const std::span<const std::uint8_t> kDigitsPacked;

}  // namespace fanout::models
