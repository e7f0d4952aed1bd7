// SPDX-License-Identifier: Apache-2.0
// Copies between devices, and the links that must not carry them: what would go over a closed link goes through pinned
// memory of the host.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/device/stream.h"

namespace fanout {

/// False where close_link() closed the link between any two of them.
bool links_open(const std::vector<Device>& devices);

/// From now on nothing goes directly between the two, in either direction. Warns with the reason, once a pair.
void close_link(Device a, Device b, const std::string& reason);

/// Queues in `stream`, of either device, a copy of `bytes` bytes between two devices. Where the link is closed, or says
/// that it cannot carry the copy (cudaErrorPeerAccessUnsupported, which closes it), the bytes go through pinned host
/// memory, and the host waits for them.
void copy_between(void* target, Device target_device, const void* source, Device source_device, std::size_t bytes,
                  StreamView stream);

}  // namespace fanout
