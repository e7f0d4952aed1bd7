# SPDX-License-Identifier: Apache-2.0
# The one place that chooses the platform: include path and libraries change, not one source.
# Everything above links fanout::platform.

option(FANOUT_KERNEL_CHECKS "Check every access to memory of kernels on simulated devices (needs clang)" OFF)
set(FANOUT_DEVICE_OPTIONS "") # to compile device code with

if(FANOUT_PLATFORM STREQUAL "cuda")
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES all-major)
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared) # the one that fanout::platform links
  enable_language(CUDA)
  set(FANOUT_DEVICE_LANGUAGE CUDA)
  find_package(CUDAToolkit 12 REQUIRED)
  find_package(NCCL 2.18 REQUIRED)
  add_subdirectory(cuda)
elseif(FANOUT_PLATFORM STREQUAL "sim")
  set(FANOUT_DEVICE_LANGUAGE CXX)
  if(FANOUT_KERNEL_CHECKS)
    if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR FANOUT_SANITIZE)
      message(FATAL_ERROR "FANOUT_KERNEL_CHECKS needs clang (CMAKE_CXX_COMPILER=clang++; GCC leaves shared memory out) "
                          "and no FANOUT_SANITIZE")
    endif()
    # The calls at each access go to the platform, not to ThreadSanitizer, which is not linked.
    set(FANOUT_DEVICE_OPTIONS -fsanitize=thread -g1)
  endif()
  add_subdirectory(sim)
else()
  message(FATAL_ERROR "FANOUT_PLATFORM is '${FANOUT_PLATFORM}'; it must be sim or cuda")
endif()
