// SPDX-License-Identifier: Apache-2.0
// Peer access: one direction, switched on by the device that wants to reach the other's memory.
#include <algorithm>
#include <utility>

#include "sim/runtime/machine.h"

namespace sim {

bool peer_capable(int device, int peer) {
  if (device == peer || !machine->settings.peer_access || faults::is_down(device, peer)) return false;
  const std::pair pair{device_at(device).machine_index, device_at(peer).machine_index};
  return std::ranges::none_of(machine->settings.pairs_without, [&](const std::pair<int, int>& without) {
    return without == pair || std::pair{without.second, without.first} == pair;
  });
}

}  // namespace sim

using namespace sim;

cudaError_t cudaDeviceCanAccessPeer(int* can_access, int device, int peer) {
  return api([&]() -> cudaError_t {
    if (!is_device(device) || !is_device(peer)) return cudaErrorInvalidDevice;
    if (!can_access) return cudaErrorInvalidValue;
    *can_access = peer_capable(device, peer);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return device_api([&](Device& device) -> cudaError_t {
    if (flags != 0) return cudaErrorInvalidValue;
    if (!is_device(peer) || !peer_capable(device.index, peer)) return cudaErrorInvalidDevice;
    const std::uint32_t bit = 1u << peer;
    return device.peers.fetch_or(bit, std::memory_order_acq_rel) & bit ? cudaErrorPeerAccessAlreadyEnabled
                                                                       : cudaSuccess;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return device_api([&](Device& device) -> cudaError_t {
    if (!is_device(peer)) return cudaErrorInvalidDevice;
    const std::uint32_t bit = 1u << peer;
    return device.peers.fetch_and(~bit, std::memory_order_acq_rel) & bit ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
  });
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int device, int peer) {
  return api([&]() -> cudaError_t {
    if (!value) return cudaErrorInvalidValue;
    if (!is_device(device) || !is_device(peer) || device == peer) return cudaErrorInvalidDevice;
    switch (attribute) {
      case cudaDevP2PAttrPerformanceRank:
        *value = 0;
        return cudaSuccess;
      case cudaDevP2PAttrAccessSupported:
      case cudaDevP2PAttrNativeAtomicSupported:
        *value = peer_capable(device, peer);
        return cudaSuccess;
    }
    return cudaErrorInvalidValue;
  });
}
