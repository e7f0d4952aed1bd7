// SPDX-License-Identifier: Apache-2.0
// CUDA's keywords as C++.
#pragma once

// Every translation unit has its own threadIdx (threads.h), so device code must not be shared between them: a kernel
// has internal linkage, and a device function, which may be a member and so can't be static, is always inlined. GCC
// would warn of each function that is not declared inline as well.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wattributes"
#endif

#define __host__
#define __device__ __attribute__((always_inline))
#define __global__ static __attribute__((always_inline))
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))

// One block at a time runs on a host thread. Static shared memory keeps what the block before left, as on a GPU.
#define __shared__ static thread_local
#define __constant__ static
