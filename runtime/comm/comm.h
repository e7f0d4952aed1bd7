// SPDX-License-Identifier: Apache-2.0
// Tensors between devices, as in torch.cuda.comm: broadcast, reduce_add, scatter, gather.
//
// In common to all: nothing here is part of the autograd graph. Results are row-major and count their own writes,
// except where a function says that it hands back its input or a view of it; a tensor without elements keeps its shape.
// Inputs may have any strides: they give what a dense copy of them gives and stay as they are. Broadcasts and sums go
// through NCCL where all tensors lie on distinct devices, else through peer copies and sums in a fixed order.
// Everything is queued behind the work that the compute streams of the devices hold at the call, and operators may use
// the results at once; the host waits only for copies from pageable memory and to the host.
//
// Errors: InvalidArgument in torch's words with our names of devices, before anything is copied; NcclError or CudaError
// from the libraries. One dtype a call, where torch converts some in silence.
//
// Source: behaviour of torch/nn/parallel/comm.py and torch/csrc/cuda/comm.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/device/stream.h"
#include "runtime/tensor/tensor.h"

namespace fanout::comm {

/// How much the coalesced functions put into one buffer, and so into one NCCL call.
inline constexpr std::size_t kBufferBytes = std::size_t{10} << 20;

/// The tensor on each of `devices`, in their order; it may be on the host. Where a listed device is the tensor's own,
/// the result is the tensor itself. A device may be listed twice: NCCL is then not used.
std::vector<Tensor> broadcast(const Tensor& tensor, const std::vector<Device>& devices);

/// Copies the tensor into each of `outputs`: on devices, of the tensor's shape and dtype, any strides. Counts a write
/// to each.
void broadcast_to(const Tensor& tensor, const std::vector<Tensor>& outputs);

/// Broadcasts many tensors with few calls: result[device][tensor]. All tensors must be on devices[0]; its results are
/// the tensors themselves. Tensors of one dtype travel together, in the order of the list, in groups that are closed
/// once they hold `buffer_bytes`, so a group can exceed that by its last tensor. The copies of one group share a buffer
/// and keep it alive, each with its own count of writes.
std::vector<std::vector<Tensor>> broadcast_coalesced(const std::vector<Tensor>& tensors,
                                                     const std::vector<Device>& devices,
                                                     std::size_t buffer_bytes = kBufferBytes);

/// The sum of `inputs`, tensors of one shape and dtype on devices, on `destination` (without one: the current device),
/// where one of them must be: the last one there is the root. A single input is handed back itself. Added in the order
/// root, then the other inputs by index, where NCCL keeps the rank order or isn't used; in the inputs' dtype, without
/// widening.
Tensor reduce_add(const std::vector<Tensor>& inputs, std::optional<Device> destination = std::nullopt);

/// reduce_add of inputs[0][t], inputs[1][t], … for every t, with few calls: the sums in the order of t. inputs[i] are
/// all on one device, the same shapes and dtypes for every i. Tensors of one dtype are summed together, in groups that
/// hold at most `buffer_bytes`; a tensor larger than that goes alone. Sums share no memory with the inputs; those of
/// one group share a buffer and keep it alive, each with its own count of writes.
std::vector<Tensor> reduce_add_coalesced(const std::vector<std::vector<Tensor>>& inputs,
                                         std::optional<Device> destination = std::nullopt,
                                         std::size_t buffer_bytes = kBufferBytes);

/// Sizes of the pieces of `size` rows by torch.chunk's rule: ceil(size / pieces) each, the last one smaller, and no
/// more pieces than rows need (9 rows in 4 pieces are 3, 3, 3); no rows are `pieces` empty ones.
std::vector<std::int64_t> chunk_sizes(std::int64_t size, std::size_t pieces);

struct ScatterOptions {
  /// The size of each device's piece, 0 allowed; together the size of `dim`. None: torch.chunk's rule, which can give
  /// fewer pieces than there are devices.
  std::vector<std::int64_t> chunk_sizes = {};
  /// Negative ones count from the back.
  int dim = 0;
  /// streams[i], if given, is a stream of devices[i] that queues the copy of piece i behind the device's compute
  /// stream. Whoever reads, writes or releases that piece first makes the compute stream wait for it.
  std::vector<std::optional<StreamView>> streams = {};
};

/// Pieces of the tensor along `dim`, piece i on devices[i]. The tensor may be on the host, and each device gets no more
/// than its piece. A piece on the tensor's own device is a view of it. A pinned tensor must stay unchanged until the
/// copies are done.
std::vector<Tensor> scatter(const Tensor& tensor, const std::vector<Device>& devices,
                            const ScatterOptions& options = {});

/// Copies the pieces of the tensor into `outputs`: on devices, any strides, the tensor's shape except along `dim`,
/// where they add up to it. Counts a write to each.
void scatter_into(const Tensor& tensor, const std::vector<Tensor>& outputs, int dim = 0);

struct GatherOptions {
  /// Negative ones count from the back.
  int dim = 0;
  /// A device or Device::host(); none: the current device.
  std::optional<Device> destination = {};
};

/// `tensors`, on devices and equal in shape except along `dim`, joined along it in a new tensor, also if it is only
/// one.
Tensor gather(const std::vector<Tensor>& tensors, const GatherOptions& options = {});

/// The same into `out`, on any device or the host, with any strides. Counts a write to it.
void gather_into(const std::vector<Tensor>& tensors, const Tensor& out, int dim = 0);

}  // namespace fanout::comm
