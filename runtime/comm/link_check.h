// SPDX-License-Identifier: Apache-2.0
// Do the links between devices carry what they are given? Some machines copy wrong bytes between GPUs without an error,
// for instance where the host's IOMMU or PCIe access control stands between them.
#pragma once

#include <vector>

#include "runtime/device/device.h"

namespace fanout::comm {

/// Sends 64 KiB in both directions between each two of `devices`, which are distinct, and closes the links that deliver
/// other bytes (close_link). Waits for the devices. A CudaError names the link that was checked.
void check_links(const std::vector<Device>& devices);

}  // namespace fanout::comm
