// SPDX-License-Identifier: Apache-2.0
// cuBLAS: each call says where it stands before it is made, so that a report can name the place. A name without
// parentheses is the function itself. The platform's own sources do without.
#pragma once

#if !defined(FANOUT_SIM_SOURCE)
#include "sim/call_place.h"

// clang-format off
#define cublasCreate(...) (sim::called_at(__FILE__, __LINE__), cublasCreate(__VA_ARGS__))
#define cublasDestroy(...) (sim::called_at(__FILE__, __LINE__), cublasDestroy(__VA_ARGS__))
#define cublasSetStream(...) (sim::called_at(__FILE__, __LINE__), cublasSetStream(__VA_ARGS__))
#define cublasSetWorkspace(...) (sim::called_at(__FILE__, __LINE__), cublasSetWorkspace(__VA_ARGS__))
#define cublasSaxpy(...) (sim::called_at(__FILE__, __LINE__), cublasSaxpy(__VA_ARGS__))
#define cublasDaxpy(...) (sim::called_at(__FILE__, __LINE__), cublasDaxpy(__VA_ARGS__))
#define cublasSscal(...) (sim::called_at(__FILE__, __LINE__), cublasSscal(__VA_ARGS__))
#define cublasDscal(...) (sim::called_at(__FILE__, __LINE__), cublasDscal(__VA_ARGS__))
#define cublasSdot(...) (sim::called_at(__FILE__, __LINE__), cublasSdot(__VA_ARGS__))
#define cublasDdot(...) (sim::called_at(__FILE__, __LINE__), cublasDdot(__VA_ARGS__))
#define cublasSnrm2(...) (sim::called_at(__FILE__, __LINE__), cublasSnrm2(__VA_ARGS__))
#define cublasDnrm2(...) (sim::called_at(__FILE__, __LINE__), cublasDnrm2(__VA_ARGS__))
#define cublasSgemm(...) (sim::called_at(__FILE__, __LINE__), cublasSgemm(__VA_ARGS__))
#define cublasDgemm(...) (sim::called_at(__FILE__, __LINE__), cublasDgemm(__VA_ARGS__))
#define cublasSgemmStridedBatched(...) (sim::called_at(__FILE__, __LINE__), cublasSgemmStridedBatched(__VA_ARGS__))
#define cublasDgemmStridedBatched(...) (sim::called_at(__FILE__, __LINE__), cublasDgemmStridedBatched(__VA_ARGS__))
#define cublasGemmEx(...) (sim::called_at(__FILE__, __LINE__), cublasGemmEx(__VA_ARGS__))
#define cublasSgeam(...) (sim::called_at(__FILE__, __LINE__), cublasSgeam(__VA_ARGS__))
#define cublasDgeam(...) (sim::called_at(__FILE__, __LINE__), cublasDgeam(__VA_ARGS__))
// clang-format on
#endif
