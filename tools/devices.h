// SPDX-License-Identifier: Apache-2.0
// `fanout devices`: what the process sees.
#pragma once

namespace fanout::tools {

/// Prints a line for each visible device: index, name, memory, multiprocessors, compute capability, UUID. Throws
/// NoDeviceError.
void print_devices();

}  // namespace fanout::tools
