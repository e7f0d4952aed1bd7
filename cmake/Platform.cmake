# SPDX-License-Identifier: Apache-2.0
# The one place that chooses the platform: include path and libraries change, not one source.
# Everything above links fanout::platform.

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
  add_subdirectory(sim)
else()
  message(FATAL_ERROR "FANOUT_PLATFORM is '${FANOUT_PLATFORM}'; it must be sim or cuda")
endif()
