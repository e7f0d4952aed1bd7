// SPDX-License-Identifier: Apache-2.0
// What a simulated device says of itself: the limits of compute capability 9.0, a bus address and a UUID of its own.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sim/runtime/function_limits.h"
#include "sim/runtime/machine.h"

using namespace sim;

namespace {

// Decimal digits only, so that the text reads alike in upper and lower case.
int bus_of(int machine_index) {
  return (1 + machine_index / 10) * 16 + machine_index % 10;
}

void describe_limits(cudaDeviceProp& properties) {
  properties.sharedMemPerBlock = kSharedBytes;
  properties.sharedMemPerBlockOptin = kSharedOptInBytes;
  properties.sharedMemPerMultiprocessor = kSharedPerSmBytes;
  properties.reservedSharedMemPerBlock = kSharedReservedBytes;
  properties.regsPerBlock = properties.regsPerMultiprocessor = kRegistersPerSm;
  properties.warpSize = 32;
  properties.memPitch = 0x7fffffff;
  properties.maxThreadsPerBlock = kMaxThreads;
  properties.maxThreadsDim[0] = properties.maxThreadsDim[1] = kMaxThreads;
  properties.maxThreadsDim[2] = kMaxBlockZ;
  properties.maxGridSize[0] = static_cast<int>(kMaxGridX);
  properties.maxGridSize[1] = properties.maxGridSize[2] = kMaxGridYZ;
  properties.totalConstMem = 64 << 10;
  properties.maxThreadsPerMultiProcessor = kMaxThreadsPerSm;
  properties.maxBlocksPerMultiProcessor = kMaxBlocksPerSm;
  properties.multiProcessorCount = kSmCount;
}

cudaDeviceProp describe(const Device& device) {
  cudaDeviceProp properties{};
  std::snprintf(properties.name, sizeof properties.name, "Simulated GPU");
  unsigned char uuid[16];
  device_uuid(device.machine_index, uuid);
  std::memcpy(properties.uuid.bytes, uuid, sizeof uuid);
  properties.totalGlobalMem = device.arena.limit();
  describe_limits(properties);
  properties.major = 9;
  properties.canMapHostMemory = properties.concurrentKernels = properties.unifiedAddressing = 1;
  properties.streamPrioritiesSupported = properties.cooperativeLaunch = properties.hostRegisterSupported = 1;
  properties.memoryPoolsSupported = 1;
  properties.pciBusID = bus_of(device.machine_index);
  // Eager copies are made by the thread that queues them; nothing copies beside it.
  properties.asyncEngineCount = is_late() ? 2 : 0;
  properties.memoryBusWidth = 5120;
  properties.l2CacheSize = 32 << 20;
  return properties;
}

// -1: unknown attribute.
int attribute_of(const cudaDeviceProp& properties, cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      return properties.maxThreadsPerBlock;
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
    case cudaDevAttrMaxBlockDimZ:
      return properties.maxThreadsDim[attribute - cudaDevAttrMaxBlockDimX];
    case cudaDevAttrMaxGridDimX:
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      return properties.maxGridSize[attribute - cudaDevAttrMaxGridDimX];
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return static_cast<int>(properties.sharedMemPerBlock);
    case cudaDevAttrTotalConstantMemory:
      return static_cast<int>(properties.totalConstMem);
    case cudaDevAttrWarpSize:
      return properties.warpSize;
    case cudaDevAttrMaxRegistersPerBlock:
      return properties.regsPerBlock;
    case cudaDevAttrClockRate:
      return 1'700'000;  // kHz
    case cudaDevAttrMultiProcessorCount:
      return properties.multiProcessorCount;
    case cudaDevAttrIntegrated:
    case cudaDevAttrComputeMode:
    case cudaDevAttrEccEnabled:
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrIsMultiGpuBoard:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrClusterLaunch:
      return 0;
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrMemoryPoolsSupported:
      return 1;
    case cudaDevAttrPciBusId:
      return properties.pciBusID;
    case cudaDevAttrMemoryClockRate:
      return 2'600'000;  // kHz
    case cudaDevAttrGlobalMemoryBusWidth:
      return properties.memoryBusWidth;
    case cudaDevAttrL2CacheSize:
      return properties.l2CacheSize;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return properties.maxThreadsPerMultiProcessor;
    case cudaDevAttrAsyncEngineCount:
      return properties.asyncEngineCount;
    case cudaDevAttrComputeCapabilityMajor:
      return properties.major;
    case cudaDevAttrComputeCapabilityMinor:
      return properties.minor;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return static_cast<int>(properties.sharedMemPerMultiprocessor);
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return properties.regsPerMultiprocessor;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return static_cast<int>(properties.sharedMemPerBlockOptin);
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return properties.maxBlocksPerMultiProcessor;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      return static_cast<int>(properties.reservedSharedMemPerBlock);
  }
  return -1;
}

constexpr int kBusIdBytes = 13;  // "0000:10:00.0" and the final zero

}  // namespace

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return api([&]() -> cudaError_t {
    if (!properties) return cudaErrorInvalidValue;
    if (!is_device(device)) return cudaErrorInvalidDevice;
    *properties = describe(device_at(device));
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return api([&]() -> cudaError_t {
    if (!value) return cudaErrorInvalidValue;
    if (!is_device(device)) return cudaErrorInvalidDevice;
    const int found = attribute_of(describe(device_at(device)), attribute);
    if (found < 0) return cudaErrorInvalidValue;
    *value = found;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  return api([&]() -> cudaError_t {
    if (!text || length < kBusIdBytes) return cudaErrorInvalidValue;
    if (!is_device(device)) return cudaErrorInvalidDevice;
    std::snprintf(text, kBusIdBytes, "0000:%02X:00.0",
                  static_cast<unsigned>(bus_of(device_at(device).machine_index)) & 0xff);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return api([&]() -> cudaError_t {
    if (!device || !text) return cudaErrorInvalidValue;
    unsigned domain = 0, bus = 0, slot = 0, function = 0;
    if (std::sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4) return cudaErrorInvalidValue;
    for (const auto& candidate : machine->devices) {
      if (domain || slot || function || static_cast<int>(bus) != bus_of(candidate->machine_index)) continue;
      *device = candidate->index;
      return cudaSuccess;
    }
    return cudaErrorInvalidDevice;
  });
}
