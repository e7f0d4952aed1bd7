// SPDX-License-Identifier: Apache-2.0
// Work of several streams on the same memory that nothing orders. A GPU forgives each of these now and then.
#include <cublas_v2.h>

#include <tuple>

#include "tests/platform/bugs/bug.h"
#include "tests/platform/bugs/lab.h"

using namespace fanout::test;

namespace {

__global__ void scale_kernel(float* values, float factor, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] *= factor;
}

__global__ void add_kernel(float* sum, const float* addend, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) sum[i] += addend[i];
}

cudaLaunchConfig_t in_stream(cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(kCount);
  config.stream = stream;
  return config;
}

}  // namespace

FANOUT_BUG(no_event_wait, "race: cudaMemsetAsync at", "writes, stream", "and then cudaMemcpyAsync at",
           "has not waited for an event recorded in stream", "(1024 bytes of cuda:0, allocated at") {
  const Lab lab;
  REQUIRE_OK(cudaMemsetAsync(lab.a, 1, kBytes, lab.first));  // bug: no_event_wait
  if (corrected) lab.order(lab.first, lab.second);
  REQUIRE_OK(cudaMemcpyAsync(lab.b, lab.a, kBytes, cudaMemcpyDeviceToDevice, lab.second));  // bug: no_event_wait
  REQUIRE_OK(cudaStreamSynchronize(lab.second));
}

FANOUT_BUG(event_recorded_too_early, "race: cudaMemsetAsync at", "and then cudaMemcpyAsync at") {
  const Lab lab;
  if (!corrected) REQUIRE_OK(cudaEventRecord(lab.done, lab.first));
  REQUIRE_OK(cudaMemsetAsync(lab.a, 1, kBytes, lab.first));  // bug: event_recorded_too_early
  if (corrected) REQUIRE_OK(cudaEventRecord(lab.done, lab.first));
  REQUIRE_OK(cudaStreamWaitEvent(lab.second, lab.done));
  const auto kind = cudaMemcpyDeviceToDevice;
  REQUIRE_OK(cudaMemcpyAsync(lab.b, lab.a, kBytes, kind, lab.second));  // bug: event_recorded_too_early
}

FANOUT_BUG(event_never_recorded, "race: cudaMemsetAsync at", "and then cudaMemsetAsync at") {
  const Lab lab;
  REQUIRE_OK(cudaMemsetAsync(lab.a, 1, kBytes, lab.first));  // bug: event_never_recorded
  if (corrected) REQUIRE_OK(cudaEventRecord(lab.done, lab.first));
  REQUIRE_OK(cudaStreamWaitEvent(lab.second, lab.done));
  REQUIRE_OK(cudaMemsetAsync(lab.a, 2, kBytes, lab.second));  // bug: event_never_recorded
}

FANOUT_BUG(event_recorded_in_the_wrong_stream, "race: cudaMemsetAsync at", "and then cudaMemsetAsync at") {
  const Lab lab;
  REQUIRE_OK(cudaMemsetAsync(lab.a, 1, kBytes, lab.first));  // bug: event_recorded_in_the_wrong_stream
  REQUIRE_OK(cudaEventRecord(lab.done, corrected ? lab.first : lab.second));
  REQUIRE_OK(cudaStreamWaitEvent(lab.second, lab.done));
  REQUIRE_OK(cudaMemsetAsync(lab.a, 2, kBytes, lab.second));  // bug: event_recorded_in_the_wrong_stream
}

FANOUT_BUG(wrong_stream_synchronised, "race: cudaMemsetAsync at", "the host has not waited for it either") {
  const Lab lab;
  REQUIRE_OK(cudaMemsetAsync(lab.a, 1, kBytes, lab.first));  // bug: wrong_stream_synchronised
  REQUIRE_OK(cudaStreamSynchronize(corrected ? lab.first : lab.second));
  REQUIRE_OK(cudaMemsetAsync(lab.a, 2, kBytes, lab.second));  // bug: wrong_stream_synchronised
}

FANOUT_BUG(wrong_device_synchronised, "race: cudaMemsetAsync at", "of cuda:1") {
  const Lab lab(1);
  REQUIRE_OK(cudaMemsetAsync(lab.a, 1, kBytes, lab.first));  // bug: wrong_device_synchronised
  if (corrected) REQUIRE_OK(cudaSetDevice(1));
  REQUIRE_OK(cudaDeviceSynchronize());
  REQUIRE_OK(cudaMemsetAsync(lab.a, 2, kBytes, lab.second));  // bug: wrong_device_synchronised
}

// The default stream waits for blocking streams only, and only they for it.
FANOUT_BUG(default_stream_is_not_waited_for, "race: cudaMemset at", "default stream", "and then cudaMemsetAsync at") {
  const Lab lab;
  cudaStream_t blocking = nullptr;
  REQUIRE_OK(cudaStreamCreate(&blocking));
  REQUIRE_OK(cudaMemset(lab.a, 1, kBytes));  // bug: default_stream_is_not_waited_for
  const cudaStream_t stream = corrected ? blocking : lab.first;
  REQUIRE_OK(cudaMemsetAsync(lab.a, 2, kBytes, stream));  // bug: default_stream_is_not_waited_for
  REQUIRE_OK(cudaStreamDestroy(blocking));
}

FANOUT_BUG(default_stream_does_not_wait, "race: cudaMemsetAsync at", "and then cudaMemset at", "default stream") {
  const Lab lab;
  REQUIRE_OK(cudaMemsetAsync(lab.a, 1, kBytes, lab.first));  // bug: default_stream_does_not_wait
  if (corrected) REQUIRE_OK(cudaStreamSynchronize(lab.first));
  REQUIRE_OK(cudaMemset(lab.a, 2, kBytes));  // bug: default_stream_does_not_wait
}

// The call returns when the bytes have left the pageable memory, not when they have arrived.
FANOUT_BUG(pageable_copy_still_under_way, "race: cudaMemcpy at", "and then cudaMemsetAsync at") {
  const Lab lab;
  const std::vector<float> values(kCount, 1);
  REQUIRE_OK(cudaMemcpy(lab.a, values.data(), kBytes, cudaMemcpyHostToDevice));  // bug: pageable_copy_still_under_way
  if (corrected) REQUIRE_OK(cudaStreamSynchronize(nullptr));
  REQUIRE_OK(cudaMemsetAsync(lab.a, 0, kBytes, lab.first));  // bug: pageable_copy_still_under_way
}

FANOUT_BUG(pinned_buffer_read_too_early, "race: cudaMemcpyAsync at", "bytes of pinned memory, allocated at") {
  const Lab lab;
  const Pinned pinned;
  const auto to_host = cudaMemcpyDeviceToHost, to_device = cudaMemcpyHostToDevice;
  REQUIRE_OK(cudaMemcpyAsync(pinned.data, lab.a, kBytes, to_host, lab.first));  // bug: pinned_buffer_read_too_early
  if (corrected) lab.order(lab.first, lab.second);
  REQUIRE_OK(cudaMemcpyAsync(lab.b, pinned.data, kBytes, to_device, lab.second));  // bug: pinned_buffer_read_too_early
  REQUIRE_OK(cudaDeviceSynchronize());
}

FANOUT_BUG(source_overwritten_while_copied, "race: cudaMemcpyPeerAsync at", "(reads, stream",
           "and then cudaMemsetAsync at") {
  const Lab here(0), there(1);
  REQUIRE_OK(cudaMemcpyPeerAsync(there.a, 1, here.a, 0, kBytes, there.first));  // bug: source_overwritten_while_copied
  if (corrected) there.order(there.first, here.first);
  REQUIRE_OK(cudaMemsetAsync(here.a, 1, kBytes, here.first));  // bug: source_overwritten_while_copied
}

FANOUT_BUG(peer_copy_before_the_source_is_there, "race: cudaMemsetAsync at", "of cuda:0", "of cuda:1",
           "and then cudaMemcpyPeerAsync at") {
  const Lab here(0), there(1);
  REQUIRE_OK(cudaMemsetAsync(here.a, 1, kBytes, here.first));  // bug: peer_copy_before_the_source_is_there
  if (corrected) here.order(here.first, there.first);
  const float* const source = here.a;
  REQUIRE_OK(
      cudaMemcpyPeerAsync(there.a, 1, source, 0, kBytes, there.first));  // bug: peer_copy_before_the_source_is_there
}

FANOUT_BUG(freed_while_another_stream_reads, "race: cudaMemcpyAsync at", "(reads, stream",
           "and then cudaFreeAsync at") {
  const Lab lab;
  float* block = nullptr;
  REQUIRE_OK(cudaMallocAsync(&block, kBytes, lab.first));
  REQUIRE_OK(cudaMemsetAsync(block, 1, kBytes, lab.first));
  lab.order(lab.first, lab.second);
  const auto kind = cudaMemcpyDeviceToDevice;
  REQUIRE_OK(cudaMemcpyAsync(lab.b, block, kBytes, kind, lab.second));  // bug: freed_while_another_stream_reads
  if (corrected) lab.order(lab.second, lab.first);
  REQUIRE_OK(cudaFreeAsync(block, lab.first));  // bug: freed_while_another_stream_reads
}

FANOUT_BUG(used_before_it_is_allocated, "race: cudaMallocAsync at", "and then cudaMemsetAsync at") {
  const Lab lab;
  float* block = nullptr;
  REQUIRE_OK(cudaMallocAsync(&block, kBytes, lab.first));  // bug: used_before_it_is_allocated
  if (corrected) lab.order(lab.first, lab.second);
  REQUIRE_OK(cudaMemsetAsync(block, 1, kBytes, lab.second));  // bug: used_before_it_is_allocated
  lab.order(lab.second, lab.first);
  REQUIRE_OK(cudaFreeAsync(block, lab.first));
}

FANOUT_BUG(kernel_before_its_input_is_there, "race: cudaMemsetAsync at", "and then add_kernel at") {
  const Lab lab;
  REQUIRE_OK(cudaMemsetAsync(lab.a, 1, kBytes, lab.first));  // bug: kernel_before_its_input_is_there
  if (corrected) lab.order(lab.first, lab.second);
  const cudaLaunchConfig_t config = in_stream(lab.second);
  REQUIRE_OK(cudaLaunchKernelEx(&config, add_kernel, lab.b, lab.a, kCount));  // bug: kernel_before_its_input_is_there
}

FANOUT_BUG(two_kernels_on_one_output, "race: scale_kernel at", "and then scale_kernel at") {
  const Lab lab;
  const cudaLaunchConfig_t config = in_stream(lab.first), other = in_stream(lab.second);
  REQUIRE_OK(cudaLaunchKernelEx(&config, scale_kernel, lab.a, 2.0f, kCount));  // bug: two_kernels_on_one_output
  if (corrected) lab.order(lab.first, lab.second);
  REQUIRE_OK(cudaLaunchKernelEx(&other, scale_kernel, lab.a, 3.0f, kCount));  // bug: two_kernels_on_one_output
}

FANOUT_BUG(copied_out_before_the_kernel_is_done, "race: scale_kernel at", "and then cudaMemcpy at", "default stream") {
  const Lab lab;
  std::vector<float> values(kCount);
  const cudaLaunchConfig_t config = in_stream(lab.first);
  REQUIRE_OK(
      cudaLaunchKernelEx(&config, scale_kernel, lab.a, 2.0f, kCount));  // bug: copied_out_before_the_kernel_is_done
  if (corrected) REQUIRE_OK(cudaStreamSynchronize(lab.first));
  const auto kind = cudaMemcpyDeviceToHost;
  REQUIRE_OK(cudaMemcpy(values.data(), lab.a, kBytes, kind));  // bug: copied_out_before_the_kernel_is_done
}

// The handle still queues its work in the default stream.
FANOUT_BUG(blas_stream_not_set, "race: cublasSscal at", "default stream", "and then cudaMemsetAsync at") {
  const Lab lab;
  cublasHandle_t handle = nullptr;
  REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  if (corrected) REQUIRE(cublasSetStream(handle, lab.first) == CUBLAS_STATUS_SUCCESS);
  const float factor = 2;
  REQUIRE(cublasSscal(handle, kCount, &factor, lab.a, 1) == CUBLAS_STATUS_SUCCESS);  // bug: blas_stream_not_set
  REQUIRE_OK(cudaMemsetAsync(lab.a, 1, kBytes, lab.first));                          // bug: blas_stream_not_set
  REQUIRE(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
}

FANOUT_BUG(product_too_early, "race: cudaMemsetAsync at", "and then cublasSgemm at", "reads, stream") {
  const Lab lab;
  cublasHandle_t handle = nullptr;
  REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasSetStream(handle, lab.second) == CUBLAS_STATUS_SUCCESS);
  const float one = 1, zero = 0;
  const auto plain = CUBLAS_OP_N;
  // Only the last column of the second factor is being written: the product reads it all.
  REQUIRE_OK(cudaMemsetAsync(lab.a + 56, 1, 8 * sizeof(float), lab.first));  // bug: product_too_early
  if (corrected) lab.order(lab.first, lab.second);
  const float *x = lab.a + 64, *y = lab.a;
  (void)cublasSgemm(handle, plain, plain, 8, 8, 8, &one, x, 8, y, 8, &zero, lab.b, 8);  // bug: product_too_early
  REQUIRE(cublasDestroy(handle) == CUBLAS_STATUS_SUCCESS);
}

FANOUT_BUG(broadcast_not_waited_for, "race: Broadcast at", "of cuda:1", "and then cudaMemsetAsync at") {
  const Lab labs[] = {Lab(0), Lab(1)};
  const Pair pair;
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int r = 0; r < 2; ++r) {
    const Lab& lab = labs[r];
    (void)ncclBroadcast(lab.a, lab.a, kCount, ncclFloat, 0, pair.ranks[r], lab.first);  // bug: broadcast_not_waited_for
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  if (corrected) labs[1].order(labs[1].first, labs[1].second);
  REQUIRE_OK(cudaMemsetAsync(labs[1].a, 1, kBytes, labs[1].second));  // bug: broadcast_not_waited_for
}

FANOUT_BUG(reduce_too_early, "race: cudaMemsetAsync at", "and then Reduce at", "of cuda:1") {
  const Lab labs[] = {Lab(0), Lab(1)};
  const Pair pair;
  REQUIRE_OK(cudaMemsetAsync(labs[1].a, 1, kBytes, labs[1].second));  // bug: reduce_too_early
  if (corrected) labs[1].order(labs[1].second, labs[1].first);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int r = 0; r < 2; ++r) {
    const auto& [a, b, stream] = std::tie(labs[r].a, labs[r].b, labs[r].first);
    (void)ncclReduce(a, b, kCount, ncclFloat, ncclSum, 0, pair.ranks[r], stream);  // bug: reduce_too_early
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
}

// That the root has the sum says that the other rank's data has left, but nothing of the other rank's own stream.
FANOUT_BUG(only_one_rank_waited_for, "race: AllReduce at", "of cuda:1", "and then cudaMemsetAsync at") {
  const Lab labs[] = {Lab(0), Lab(1)};
  const Pair pair;
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int r = 0; r < 2; ++r) {
    const auto& [a, b, stream] = std::tie(labs[r].a, labs[r].b, labs[r].first);
    (void)ncclAllReduce(a, b, kCount, ncclFloat, ncclSum, pair.ranks[r], stream);  // bug: only_one_rank_waited_for
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  REQUIRE_OK(cudaStreamSynchronize(labs[corrected ? 1 : 0].first));
  REQUIRE_OK(cudaMemsetAsync(labs[1].b, 1, kBytes, labs[1].second));  // bug: only_one_rank_waited_for
}
