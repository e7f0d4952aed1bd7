// SPDX-License-Identifier: Apache-2.0
// The report when threads of a block wait for others that never come. On a GPU these kernels would hang.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <string>

#include "kernels/launch.cuh"
#include "tests/platform/simt/device_array.h"

using fanout::kernels::launch;

namespace {

template <class T>
__global__ void half_waits_kernel(T* out) {
  if (threadIdx.x < 40) {
    __syncthreads();
  } else {
    __shfl_sync(threadIdx.x < 64 ? 0xffffffffu : 0x7u, 1, 0);
  }
  out[threadIdx.x] = T(1);
}

__global__ void two_barriers_kernel() {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

__global__ void not_in_mask_kernel() {
  __syncwarp(0x1u);
}

__global__ void masks_differ_kernel() {
  __syncwarp(threadIdx.x == 0 ? 0x3u : 0x7u);
}

/// What a program writes to stderr before it stops, and the signal that stops it.
struct Death {
  std::string report;
  int signal = 0;
};

Death death_of(const std::function<void()>& action) {
  int ends[2] = {};
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    dup2(ends[1], STDERR_FILENO);
    action();
    static_cast<void>(cudaDeviceSynchronize());
    _exit(0);
  }
  close(ends[1]);
  Death death;
  std::array<char, 4096> piece{};
  for (ssize_t got = 0; (got = read(ends[0], piece.data(), piece.size())) > 0;) {
    death.report.append(piece.data(), static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  death.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return death;
}

using Catch::Matchers::Contains;

}  // namespace

TEST_CASE("threads that wait for ever stop the program, which names kernel, block and threads") {
  DeviceArray<float> out(67);
  const Death death = death_of([&out] {
    static_cast<void>(launch<half_waits_kernel<float>>(nullptr, {dim3(3), dim3(67)}, out.data()));
  });
  CHECK(death.signal == SIGABRT);
#if defined(__clang__)  // which leaves the arguments of the template out
  CHECK_THAT(death.report, Contains("half_waits_kernel"));
#else
  CHECK_THAT(death.report, Contains("half_waits_kernel<float>"));
#endif
  CHECK_THAT(death.report, Contains("block (0, 0, 0)"));
  CHECK_THAT(death.report, Contains("threads 0 to 39 wait at __syncthreads, divergence_test.cu:"));
  CHECK_THAT(death.report, Contains("threads 40 to 63 wait at __shfl_sync, divergence_test.cu:"));
}

TEST_CASE("threads that meet at different barriers stop the program") {
  const Death death = death_of([] { static_cast<void>(launch<two_barriers_kernel>(nullptr, {dim3(1), dim3(64)})); });
  CHECK(death.signal == SIGABRT);
  CHECK_THAT(death.report, Contains("threads of the block meet at different barriers"));
}

TEST_CASE("a lane outside its own mask, and lanes that name different masks, stop the program") {
  const Death outside = death_of([] { static_cast<void>(launch<not_in_mask_kernel>(nullptr, {dim3(1), dim3(32)})); });
  CHECK(outside.signal == SIGABRT);
  CHECK_THAT(outside.report, Contains("a lane is not in the mask that it names"));
  const Death differ = death_of([] { static_cast<void>(launch<masks_differ_kernel>(nullptr, {dim3(1), dim3(3)})); });
  CHECK(differ.signal == SIGABRT);
  CHECK_THAT(differ.report, Contains("lanes of a warp name different masks"));
}
