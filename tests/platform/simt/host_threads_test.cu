// SPDX-License-Identifier: Apache-2.0
// Kernels with barriers, launched from several host threads at once.
#include <cstdint>
#include <thread>
#include <vector>

#include "kernels/launch.cuh"
#include "tests/platform/simt/device_array.h"

using namespace fanout::kernels;

namespace {

__global__ void row_sums_kernel(int* y, const int* x, std::int64_t cols) {
  __shared__ int row;
  if (threadIdx.x == 0) row = static_cast<int>(blockIdx.x);
  __syncthreads();
  int sum = 0;
  for (auto i : block_stride(cols)) sum += x[row * cols + i];
  sum = block_reduce(sum, Sum{}, 0);
  if (threadIdx.x == 0) y[row] = sum;
}

bool run_often(int* y, const int* x, unsigned threads) {
  cudaStream_t stream = nullptr;
  bool good = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess;
  for (int i = 0; i < 20; ++i) {
    good = good && launch<row_sums_kernel>(stream, {dim3(8), dim3(threads)}, y, x, 300) == cudaSuccess;
  }
  return good && cudaStreamSynchronize(stream) == cudaSuccess && cudaStreamDestroy(stream) == cudaSuccess;
}

}  // namespace

TEST_CASE("host threads run kernels at the same time, each with its own blocks and shared memory") {
  constexpr std::size_t kHostThreads = 4;
  std::vector<int> x(8 * 300), expected(8);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<int>(i * 7919 % 1009);
    expected[i / 300] += x[i];
  }
  DeviceArray<int> device_x(x), y(8 * kHostThreads);
  bool good[kHostThreads] = {};
  std::vector<std::thread> host_threads;
  for (std::size_t i = 0; i < kHostThreads; ++i) {
    host_threads.emplace_back(
        [&, i] { good[i] = run_often(y.data() + 8 * i, device_x.data(), static_cast<unsigned>(32 << i)); });
  }
  for (std::thread& host_thread : host_threads) host_thread.join();
  for (const bool one_good : good) CHECK(one_good);
  const std::vector<int> sums = y.read();
  for (std::size_t i = 0; i < sums.size(); ++i) CHECK(sums[i] == expected[i % 8]);
}
