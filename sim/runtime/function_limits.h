// SPDX-License-Identifier: Apache-2.0
// Limits of launches: those of compute capability 9.0.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sim {

inline constexpr std::uint32_t kMaxGridX = 0x7fffffff;
inline constexpr std::uint32_t kMaxGridYZ = 65535;
inline constexpr std::uint32_t kMaxThreads = 1024;  // per block, also along x and y
inline constexpr std::uint32_t kMaxBlockZ = 64;
inline constexpr std::size_t kSharedBytes = 48 << 10;        // without opt-in
inline constexpr std::size_t kSharedOptInBytes = 227 << 10;  // cudaFuncSetAttribute
inline constexpr std::size_t kSharedPerSmBytes = 228 << 10;
inline constexpr std::size_t kSharedReservedBytes = 1 << 10;  // per block
inline constexpr int kMaxThreadsPerSm = 2048;
inline constexpr int kMaxBlocksPerSm = 32;
inline constexpr int kRegistersPerSm = 65536;
inline constexpr int kSmCount = 16;

/// Dynamic shared memory that a launch may ask for: 48 KiB, or the most that any kernel has opted in to, since a launch
/// does not say which function it runs.
std::size_t dynamic_shared_limit();

}  // namespace sim
