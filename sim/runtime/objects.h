// SPDX-License-Identifier: Apache-2.0
// What the program made on the machine, with the source places where it was made and where it ended: for reports of
// misuse, and of what is left at exit (FANOUT_SIM_LEAKS).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "sim/host_api.h"

namespace sim::objects {

enum class Kind : std::uint8_t {
  device_memory,
  pool_memory,
  pinned_memory,
  registration,
  stream,
  event,
  pool,
  blas_handle,
  communicator
};

/// This thread's call has made it; memory has `bytes` bytes.
void made(Kind kind, const void* object, int device, std::size_t bytes = 0);
/// This thread's call has ended it.
void ended(const void* object);
/// The reset of a device has ended all its objects of that kind.
void ended_all(Kind kind, int device);

/// "1024 bytes of cuda:1, allocated at a.cpp:3, freed at b.cpp:9": the object that `pointer` is or points into. Empty
/// if there was none.
std::string history(const void* pointer);

/// For a call that frees: says why this pointer cannot be freed, and gives error 1.
[[gnu::cold]] cudaError_t refuse_free(const char* call, const void* pointer);

/// A call of this thread failed; cudaGetLastError would tell.
void error_left(cudaError_t error);
/// The program asked for it.
void error_read();

}  // namespace sim::objects
