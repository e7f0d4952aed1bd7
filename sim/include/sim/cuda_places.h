// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime: each call says where it stands before it is made, so that a report can name the place. A name
// without parentheses is the function itself. The platform's own sources do without.
#pragma once

#if !defined(FANOUT_SIM_SOURCE)
#include "sim/call_place.h"

// clang-format off
#define cudaDeviceReset(...) (sim::called_at(__FILE__, __LINE__), cudaDeviceReset(__VA_ARGS__))
#define cudaDeviceEnablePeerAccess(...) (sim::called_at(__FILE__, __LINE__), cudaDeviceEnablePeerAccess(__VA_ARGS__))
#define cudaDeviceDisablePeerAccess(...) (sim::called_at(__FILE__, __LINE__), cudaDeviceDisablePeerAccess(__VA_ARGS__))
#define cudaMalloc(...) (sim::called_at(__FILE__, __LINE__), cudaMalloc(__VA_ARGS__))
#define cudaFree(...) (sim::called_at(__FILE__, __LINE__), cudaFree(__VA_ARGS__))
#define cudaMallocHost(...) (sim::called_at(__FILE__, __LINE__), cudaMallocHost(__VA_ARGS__))
#define cudaHostAlloc(...) (sim::called_at(__FILE__, __LINE__), cudaHostAlloc(__VA_ARGS__))
#define cudaFreeHost(...) (sim::called_at(__FILE__, __LINE__), cudaFreeHost(__VA_ARGS__))
#define cudaHostRegister(...) (sim::called_at(__FILE__, __LINE__), cudaHostRegister(__VA_ARGS__))
#define cudaHostUnregister(...) (sim::called_at(__FILE__, __LINE__), cudaHostUnregister(__VA_ARGS__))
#define cudaMallocAsync(...) (sim::called_at(__FILE__, __LINE__), cudaMallocAsync(__VA_ARGS__))
#define cudaMallocFromPoolAsync(...) (sim::called_at(__FILE__, __LINE__), cudaMallocFromPoolAsync(__VA_ARGS__))
#define cudaFreeAsync(...) (sim::called_at(__FILE__, __LINE__), cudaFreeAsync(__VA_ARGS__))
#define cudaMemPoolCreate(...) (sim::called_at(__FILE__, __LINE__), cudaMemPoolCreate(__VA_ARGS__))
#define cudaMemPoolDestroy(...) (sim::called_at(__FILE__, __LINE__), cudaMemPoolDestroy(__VA_ARGS__))
#define cudaMemcpy(...) (sim::called_at(__FILE__, __LINE__), cudaMemcpy(__VA_ARGS__))
#define cudaMemcpyAsync(...) (sim::called_at(__FILE__, __LINE__), cudaMemcpyAsync(__VA_ARGS__))
#define cudaMemcpyPeer(...) (sim::called_at(__FILE__, __LINE__), cudaMemcpyPeer(__VA_ARGS__))
#define cudaMemcpyPeerAsync(...) (sim::called_at(__FILE__, __LINE__), cudaMemcpyPeerAsync(__VA_ARGS__))
#define cudaMemcpy2D(...) (sim::called_at(__FILE__, __LINE__), cudaMemcpy2D(__VA_ARGS__))
#define cudaMemcpy2DAsync(...) (sim::called_at(__FILE__, __LINE__), cudaMemcpy2DAsync(__VA_ARGS__))
#define cudaMemset(...) (sim::called_at(__FILE__, __LINE__), cudaMemset(__VA_ARGS__))
#define cudaMemsetAsync(...) (sim::called_at(__FILE__, __LINE__), cudaMemsetAsync(__VA_ARGS__))
#define cudaMemset2D(...) (sim::called_at(__FILE__, __LINE__), cudaMemset2D(__VA_ARGS__))
#define cudaMemset2DAsync(...) (sim::called_at(__FILE__, __LINE__), cudaMemset2DAsync(__VA_ARGS__))
#define cudaStreamCreate(...) (sim::called_at(__FILE__, __LINE__), cudaStreamCreate(__VA_ARGS__))
#define cudaStreamCreateWithFlags(...) (sim::called_at(__FILE__, __LINE__), cudaStreamCreateWithFlags(__VA_ARGS__))
#define cudaStreamCreateWithPriority(...) (sim::called_at(__FILE__, __LINE__), cudaStreamCreateWithPriority(__VA_ARGS__))
#define cudaStreamDestroy(...) (sim::called_at(__FILE__, __LINE__), cudaStreamDestroy(__VA_ARGS__))
#define cudaStreamWaitEvent(...) (sim::called_at(__FILE__, __LINE__), cudaStreamWaitEvent(__VA_ARGS__))
#define cudaLaunchHostFunc(...) (sim::called_at(__FILE__, __LINE__), cudaLaunchHostFunc(__VA_ARGS__))
#define cudaStreamSynchronize(...) (sim::called_at(__FILE__, __LINE__), cudaStreamSynchronize(__VA_ARGS__))
#define cudaStreamQuery(...) (sim::called_at(__FILE__, __LINE__), cudaStreamQuery(__VA_ARGS__))
#define cudaDeviceSynchronize(...) (sim::called_at(__FILE__, __LINE__), cudaDeviceSynchronize(__VA_ARGS__))
#define cudaEventCreate(...) (sim::called_at(__FILE__, __LINE__), cudaEventCreate(__VA_ARGS__))
#define cudaEventCreateWithFlags(...) (sim::called_at(__FILE__, __LINE__), cudaEventCreateWithFlags(__VA_ARGS__))
#define cudaEventRecord(...) (sim::called_at(__FILE__, __LINE__), cudaEventRecord(__VA_ARGS__))
#define cudaEventRecordWithFlags(...) (sim::called_at(__FILE__, __LINE__), cudaEventRecordWithFlags(__VA_ARGS__))
#define cudaEventSynchronize(...) (sim::called_at(__FILE__, __LINE__), cudaEventSynchronize(__VA_ARGS__))
#define cudaEventQuery(...) (sim::called_at(__FILE__, __LINE__), cudaEventQuery(__VA_ARGS__))
#define cudaEventDestroy(...) (sim::called_at(__FILE__, __LINE__), cudaEventDestroy(__VA_ARGS__))
// clang-format on
#endif
