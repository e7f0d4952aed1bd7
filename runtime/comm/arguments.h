// SPDX-License-Identifier: Apache-2.0
// Checks and small steps that the functions of comm.h share. Not for users.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace fanout::comm {

/// Throws InvalidArgument for an undefined one, with its index.
void require_defined(std::string_view function, const std::vector<Tensor>& tensors);
/// Throws InvalidArgument unless all have the dtype of `like`.
void require_dtype(std::string_view function, const Tensor& like, const std::vector<Tensor>& tensors);
/// Throws InvalidArgument for the host and for devices that do not exist.
void require_devices(const std::vector<Device>& devices);
/// Throws InvalidArgument where an output is on the host.
void require_outputs_on_devices(const std::vector<Tensor>& outputs);

/// The device that is current in this thread.
Device current_device();
/// True where NCCL can connect them: no host, and none twice.
bool are_distinct_devices(const std::vector<Device>& devices);
/// copy(), except that a tensor that already is those elements stays as it is.
void copy_unless_same(const Tensor& target, const Tensor& source);

}  // namespace fanout::comm
