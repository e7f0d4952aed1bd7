// SPDX-License-Identifier: Apache-2.0
// NCCL: each call says where it stands before it is made, so that a report can name the place. A name without
// parentheses is the function itself. The platform's own sources do without.
#pragma once

#if !defined(FANOUT_SIM_SOURCE)
#include "sim/call_place.h"

// clang-format off
#define ncclMemAlloc(...) (sim::called_at(__FILE__, __LINE__), ncclMemAlloc(__VA_ARGS__))
#define ncclMemFree(...) (sim::called_at(__FILE__, __LINE__), ncclMemFree(__VA_ARGS__))
#define ncclCommInitRank(...) (sim::called_at(__FILE__, __LINE__), ncclCommInitRank(__VA_ARGS__))
#define ncclCommInitRankConfig(...) (sim::called_at(__FILE__, __LINE__), ncclCommInitRankConfig(__VA_ARGS__))
#define ncclCommInitAll(...) (sim::called_at(__FILE__, __LINE__), ncclCommInitAll(__VA_ARGS__))
#define ncclCommFinalize(...) (sim::called_at(__FILE__, __LINE__), ncclCommFinalize(__VA_ARGS__))
#define ncclCommDestroy(...) (sim::called_at(__FILE__, __LINE__), ncclCommDestroy(__VA_ARGS__))
#define ncclCommAbort(...) (sim::called_at(__FILE__, __LINE__), ncclCommAbort(__VA_ARGS__))
#define ncclReduce(...) (sim::called_at(__FILE__, __LINE__), ncclReduce(__VA_ARGS__))
#define ncclBcast(...) (sim::called_at(__FILE__, __LINE__), ncclBcast(__VA_ARGS__))
#define ncclBroadcast(...) (sim::called_at(__FILE__, __LINE__), ncclBroadcast(__VA_ARGS__))
#define ncclAllReduce(...) (sim::called_at(__FILE__, __LINE__), ncclAllReduce(__VA_ARGS__))
#define ncclReduceScatter(...) (sim::called_at(__FILE__, __LINE__), ncclReduceScatter(__VA_ARGS__))
#define ncclAllGather(...) (sim::called_at(__FILE__, __LINE__), ncclAllGather(__VA_ARGS__))
#define ncclSend(...) (sim::called_at(__FILE__, __LINE__), ncclSend(__VA_ARGS__))
#define ncclRecv(...) (sim::called_at(__FILE__, __LINE__), ncclRecv(__VA_ARGS__))
#define ncclGroupEnd(...) (sim::called_at(__FILE__, __LINE__), ncclGroupEnd(__VA_ARGS__))
// clang-format on
#endif
