// SPDX-License-Identifier: Apache-2.0
// Copies between tensors of any two places; none of them is part of the graph.
#pragma once

#include "runtime/device/stream.h"
#include "runtime/tensor/tensor.h"

namespace fanout {

/// Copies all elements of `source` into `target`: same dtype and shape, any devices, any strides; counts a write to
/// target. Queued on the compute streams of the devices: each waits for the other's work so far, and memory may be
/// reused at once. Host memory: a pinned source must stay unchanged until the target's stream has passed; for any other
/// host memory the copy is done at return. Throws InvalidArgument when dtype or shape differ.
void copy(const Tensor& target, const Tensor& source);

/// Copies `bytes` bytes without gaps between two places, with the order and the waits of `copy`.
void copy_bytes(void* target, Device target_device, const void* source, Device source_device, std::size_t bytes);

/// copy_bytes between two different devices, queued on the source's compute stream: several devices then write to one
/// beside each other.
void push_bytes(void* target, Device target_device, const void* source, Device source_device, std::size_t bytes);

/// The tensor itself if it is contiguous, else a contiguous copy on the same device; outside the graph.
Tensor contiguous_copy(const Tensor& tensor);
/// A contiguous copy on `device`, also if it is there already; outside the graph.
Tensor copied_to(const Tensor& tensor, Device device, HostMemory host_memory = HostMemory::pageable);

}  // namespace fanout
