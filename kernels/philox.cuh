// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10, a counter-based random generator: the same counter and key always give the same four words, so random
// numbers need no state and don't depend on how work is cut into threads. Source: Salmon, Moraes, Dror, Shaw, "Parallel
// random numbers: as easy as 1, 2, 3", SC 2011, doi:10.1145/2063384.2063405.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace fanout::kernels {

struct PhiloxWords {
  std::uint32_t words[4];
};

/// Four random words, uniform over all 32-bit values, for a 128-bit counter (word 0 least significant) and a 64-bit
/// key.
__device__ inline PhiloxWords philox4x32_10(PhiloxWords counter, std::uint32_t key0, std::uint32_t key1) {
  constexpr std::uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;  // golden ratio, √3 - 1
  std::uint32_t c0 = counter.words[0], c1 = counter.words[1], c2 = counter.words[2], c3 = counter.words[3];
  const auto round = [&] {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * c0;
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * c2;
    c0 = static_cast<std::uint32_t>(product1 >> 32) ^ c1 ^ key0;
    c1 = static_cast<std::uint32_t>(product1);
    c2 = static_cast<std::uint32_t>(product0 >> 32) ^ c3 ^ key1;
    c3 = static_cast<std::uint32_t>(product0);
    key0 += kWeyl0;
    key1 += kWeyl1;
  };
  // Written out: a loop of ten would keep compilers from vectorising the loop around it.
  round(), round(), round(), round(), round();
  round(), round(), round(), round(), round();
  return {{c0, c1, c2, c3}};
}

}  // namespace fanout::kernels
