// SPDX-License-Identifier: Apache-2.0
// Counts the bytes that NCCL is asked to move: the linker puts these functions in front of the library's own.
#pragma once

#include <atomic>
#include <cstddef>

namespace fanout::test {

struct CountedBytes {
  std::atomic<std::size_t> broadcast{0};  // received, by all ranks but the root
  std::atomic<std::size_t> reduced{0};    // given, by all ranks but the root

  void reset() { broadcast = reduced = 0; }
};

CountedBytes& counted_bytes();

}  // namespace fanout::test
