// SPDX-License-Identifier: Apache-2.0
// Shuffles at every width, and votes.
#include <cstdint>
#include <vector>

#include "kernels/launch.cuh"
#include "tests/platform/simt/device_array.h"

using fanout::kernels::launch;

namespace {

constexpr unsigned kAllLanes = 0xffffffffu;

enum class Form { index, up, down, exclusive_or };

template <class T>
__global__ void shuffle_kernel(T* out, Form form, int argument, int width) {
  const T value = static_cast<T>(threadIdx.x) + T(1000);
  T result = T();
  if (form == Form::index) result = __shfl_sync(kAllLanes, value, argument, width);
  if (form == Form::up) result = __shfl_up_sync(kAllLanes, value, static_cast<unsigned>(argument), width);
  if (form == Form::down) result = __shfl_down_sync(kAllLanes, value, static_cast<unsigned>(argument), width);
  if (form == Form::exclusive_or) result = __shfl_xor_sync(kAllLanes, value, argument, width);
  out[threadIdx.x] = result;
}

// Each lane names a source of its own.
__global__ void reverse_kernel(int* out) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  out[threadIdx.x] = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x), 31 - lane);
}

// The lanes of a mask only: those outside never come.
__global__ void masked_shuffle_kernel(int* out) {
  const unsigned mask = 0x0f0f00ffu;
  const int lane = static_cast<int>(threadIdx.x);
  if ((mask >> lane & 1) != 0) out[lane] = __shfl_xor_sync(mask, lane, 3);
}

// A second shuffle right after the first must not disturb a lane that still has to take its first result.
__global__ void chain_kernel(int* out, int rounds) {
  int value = static_cast<int>(threadIdx.x);
  for (int round = 0; round < rounds; ++round) {
    value = __shfl_down_sync(kAllLanes, value, 1) + __shfl_up_sync(kAllLanes, value, 1);
  }
  out[threadIdx.x] = value;
}

__global__ void vote_kernel(unsigned* out, unsigned pattern) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int mine = static_cast<int>(pattern >> lane & 1);
  const unsigned ballot = __ballot_sync(kAllLanes, mine);
  const int any = __any_sync(kAllLanes, mine), all = __all_sync(kAllLanes, mine);
  out[3 * threadIdx.x] = ballot;
  out[3 * threadIdx.x + 1] = any != 0;
  out[3 * threadIdx.x + 2] = all != 0;
}

__global__ void masked_vote_kernel(unsigned* out) {
  const unsigned mask = threadIdx.x % 2 == 0 ? 0x55555555u : 0xaaaaaaaau;
  out[threadIdx.x] = __ballot_sync(mask, threadIdx.x < 16);
  out[32 + threadIdx.x] = __all_sync(mask, threadIdx.x % 2 == 0) != 0;
}

// Lanes on one side of `edge` finish; the others ask who is left.
__global__ void lanes_leave_kernel(unsigned* out, int edge, bool high_lanes_leave) {
  const int lane = static_cast<int>(threadIdx.x);
  if ((lane >= edge) == high_lanes_leave) return;
  __syncwarp();
  out[lane] = __ballot_sync(kAllLanes, 1);
}

// From PTX's definition of shfl: the source lane, or the lane itself where that is out of its group.
int source_lane(Form form, int lane, int argument, int width) {
  const int first = lane & ~(width - 1), last = first + width - 1;
  switch (form) {
    case Form::index:
      return first | (argument & (width - 1));
    case Form::up:
      return lane - argument >= first ? lane - argument : lane;
    case Form::down:
      return lane + argument <= last ? lane + argument : lane;
    case Form::exclusive_or:
      return (lane ^ argument) <= last ? lane ^ argument : lane;
  }
  return -1;
}

}  // namespace

TEMPLATE_TEST_CASE("a shuffle takes the value of the lane that CUDA says", "", int, unsigned, std::int64_t, float,
                   double) {
  for (const Form form : {Form::index, Form::up, Form::down, Form::exclusive_or}) {
    for (const int width : {1, 2, 4, 8, 16, 32}) {
      for (const int argument : {0, 1, 2, 3, 5, 8, 15, 16, 31}) {
        CAPTURE(static_cast<int>(form), width, argument);
        DeviceArray<TestType> out(64);
        REQUIRE(launch<shuffle_kernel<TestType>>(nullptr, {dim3(1), dim3(64)}, out.data(), form, argument, width) ==
                cudaSuccess);
        std::vector<TestType> expected;
        for (int thread = 0; thread < 64; ++thread) {
          const int source = source_lane(form, thread % 32, argument, width);
          expected.push_back(static_cast<TestType>(1000 + thread / 32 * 32 + source));
        }
        REQUIRE(out.read() == expected);
      }
    }
  }
}

TEST_CASE("each lane may name a source of its own") {
  DeviceArray<int> out(96);
  REQUIRE(launch<reverse_kernel>(nullptr, {dim3(1), dim3(96)}, out.data()) == cudaSuccess);
  const std::vector<int> values = out.read();
  for (int thread = 0; thread < 96; ++thread) {
    REQUIRE(values[static_cast<std::size_t>(thread)] == thread / 32 * 32 + 31 - thread % 32);
  }
}

TEST_CASE("a shuffle waits for the lanes of its mask and for no other") {
  DeviceArray<int> out(32, -1);
  REQUIRE(launch<masked_shuffle_kernel>(nullptr, {dim3(1), dim3(32)}, out.data()) == cudaSuccess);
  const std::vector<int> values = out.read();
  for (int lane = 0; lane < 32; ++lane) {
    REQUIRE(values[static_cast<std::size_t>(lane)] == ((0x0f0f00ffu >> lane & 1) != 0 ? lane ^ 3 : -1));
  }
}

TEST_CASE("shuffles may follow each other at once") {
  std::vector<int> expected(32);
  for (int lane = 0; lane < 32; ++lane) expected[static_cast<std::size_t>(lane)] = lane;
  for (int round = 0; round < 9; ++round) {
    std::vector<int> next(32);
    for (int lane = 0; lane < 32; ++lane) {
      const int down = lane < 31 ? lane + 1 : lane, up = lane > 0 ? lane - 1 : lane;
      next[static_cast<std::size_t>(lane)] =
          expected[static_cast<std::size_t>(down)] + expected[static_cast<std::size_t>(up)];
    }
    expected = next;
  }
  DeviceArray<int> out(32);
  REQUIRE(launch<chain_kernel>(nullptr, {dim3(1), dim3(32)}, out.data(), 9) == cudaSuccess);
  CHECK(out.read() == expected);
}

TEST_CASE("votes count the lanes of a warp") {
  for (const unsigned pattern : {0u, 1u, 0x80000000u, 0x12345678u, kAllLanes}) {
    CAPTURE(pattern);
    DeviceArray<unsigned> out(3 * 64);
    REQUIRE(launch<vote_kernel>(nullptr, {dim3(1), dim3(64)}, out.data(), pattern) == cudaSuccess);
    const std::vector<unsigned> values = out.read();
    for (std::size_t thread = 0; thread < 64; ++thread) {
      REQUIRE(values[3 * thread] == pattern);
      REQUIRE(values[3 * thread + 1] == (pattern != 0 ? 1u : 0u));
      REQUIRE(values[3 * thread + 2] == (pattern == kAllLanes ? 1u : 0u));
    }
  }
}

TEST_CASE("groups of lanes vote by themselves") {
  DeviceArray<unsigned> out(64);
  REQUIRE(launch<masked_vote_kernel>(nullptr, {dim3(1), dim3(32)}, out.data()) == cudaSuccess);
  const std::vector<unsigned> values = out.read();
  for (std::size_t lane = 0; lane < 32; ++lane) {
    REQUIRE(values[lane] == (lane % 2 == 0 ? 0x5555u : 0xaaaau));
    REQUIRE(values[32 + lane] == (lane % 2 == 0 ? 1u : 0u));
  }
}

TEST_CASE("a warp does not wait for lanes that have finished") {
  for (const int edge : {1, 7, 20, 31}) {
    for (const bool high_lanes_leave : {false, true}) {
      CAPTURE(edge, high_lanes_leave);
      DeviceArray<unsigned> out(32);
      REQUIRE(launch<lanes_leave_kernel>(nullptr, {dim3(1), dim3(32)}, out.data(), edge, high_lanes_leave) ==
              cudaSuccess);
      const std::vector<unsigned> values = out.read();
      const unsigned low_lanes = (1u << edge) - 1;
      for (int lane = 0; lane < 32; ++lane) {
        const bool left = (lane >= edge) == high_lanes_leave;
        REQUIRE(values[static_cast<std::size_t>(lane)] == (left ? 0u : high_lanes_leave ? low_lanes : ~low_lanes));
      }
    }
  }
}
