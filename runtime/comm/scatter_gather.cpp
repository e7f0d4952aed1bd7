// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "runtime/comm/arguments.h"
#include "runtime/comm/comm.h"
#include "runtime/device/context.h"
#include "runtime/device/error.h"
#include "runtime/device/links.h"
#include "runtime/device/workers.h"
#include "runtime/tensor/copy.h"

namespace fanout::comm {
namespace {

using Sizes = std::vector<std::int64_t>;

// `dim` counted from the front.
int dimension_of(const Tensor& tensor, int dim) {
  const int rank = tensor.rank();
  if (dim < -rank || dim >= rank) {
    throw InvalidArgument(
        fmt::format("Dimension out of range (expected to be in range of [{}, {}], but got {})", -rank, rank - 1, dim));
  }
  return dim < 0 ? dim + rank : dim;
}

// Views of the tensor, one behind the other along `dim`.
std::vector<Tensor> split(const Tensor& tensor, int dim, const Sizes& sizes) {
  std::vector<Tensor> pieces;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    pieces.push_back(
        strided_view(tensor, tensor.shape().with(dim, size), tensor.strides(), begin * tensor.strides()[dim]));
    begin += size;
  }
  return pieces;
}

void require_split(const Sizes& sizes, const Tensor& tensor, int dim) {
  if (std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size < 0; })) {
    throw InvalidArgument(
        fmt::format("split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=[{}]",
                    fmt::join(sizes, ", ")));
  }
  if (std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) != tensor.shape()[dim]) {
    throw InvalidArgument(fmt::format(
        "split_with_sizes expects split_sizes to sum exactly to {} (input tensor's size at dimension {}), but got "
        "split_sizes=[{}]",
        tensor.shape()[dim], dim, fmt::join(sizes, ", ")));
  }
}

void require_streams(const std::vector<std::optional<StreamView>>& streams, const std::vector<Device>& devices) {
  if (streams.size() > devices.size()) {
    throw InvalidArgument(
        fmt::format("Expected at most one stream for each of {} devices, but got {}", devices.size(), streams.size()));
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (!streams[i] || streams[i]->device == devices[i]) continue;
    throw InvalidArgument(fmt::format(
        "Expected the device associated with the stream at index {} (was {}) to match the device supplied at "
        "that index (expected {})",
        i, streams[i]->device.name(), devices[i].name()));
  }
}

// Calls work(i) for all i below `count`, which copy `bytes` in all. Where the threads that queue copies make them,
// large ones are shared among the lanes.
template <class Work>
void copy_in_lanes(std::size_t count, std::size_t bytes, Device device, const Work& work) {
  constexpr std::size_t kLeastBytes = std::size_t{512} << 10;
  const bool pays = count > 1 && bytes >= kLeastBytes && works_on_host_threads(device);
  Workers::of_process().run(pays ? static_cast<int>(count) : 1, [&](int lane, int used) {
    for (auto i = static_cast<std::size_t>(lane); i < count; i += static_cast<std::size_t>(used)) work(i);
  });
}

// A copy on the stream's device, by the stream itself.
Tensor copied_on(StreamView stream, const Tensor& source) {
  const Tensor target = empty(source.shape(), source.dtype(), stream.device);
  if (target.elements() == 0) return target;
  const Tensor packed = contiguous_copy(source);
  const DeviceGuard guard(stream.device);
  wait_for(stream, context(stream.device).compute());  // whose memory the target has
  if (packed.device().is_host()) {
    FANOUT_CHECK(
        cudaMemcpyAsync(target.raw_data(), packed.raw_data(), packed.bytes(), cudaMemcpyHostToDevice, stream.handle));
    if (!packed.body().storage->pinned()) stream.synchronize();
    return target;
  }
  Stream& from = context(packed.device()).compute();
  wait_for(stream, from);
  copy_between(target.raw_data(), stream.device, packed.raw_data(), packed.device(), packed.bytes(), stream);
  Event copied(stream.device);
  copied.record(stream);
  FANOUT_CHECK(cudaStreamWaitEvent(from.view().handle, copied.handle(), 0));  // the source may change afterwards
  return target;
}

// How the outputs cut the tensor along `dim`.
Sizes sizes_of_outputs(const Tensor& tensor, const std::vector<Tensor>& outputs, int dim) {
  Sizes sizes;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Shape& shape = outputs[i].shape();
    if (shape.rank() != tensor.rank() || !(shape.with(dim, tensor.shape()[dim]) == tensor.shape())) {
      throw InvalidArgument(
          fmt::format("Output tensor at index {} has incorrect shape: {}. Expected same shape except for scatter dim "
                      "{} as the source "
                      "tensor: {}",
                      i, shape.text(), dim, tensor.shape().text()));
    }
    sizes.push_back(shape[dim]);
  }
  const std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  if (total != tensor.shape()[dim]) {
    throw InvalidArgument(
        fmt::format("Total size for output tensors along scatter dim {} does not match the source tensor size at dim "
                    "{}. Expected {}, "
                    "but got total size {}",
                    dim, dim, tensor.shape()[dim], total));
  }
  return sizes;
}

// Checks what is to be joined; the shape of the whole. `quote` stands around the name of a device.
Shape joined_shape(const std::vector<Tensor>& tensors, int dim, std::string_view quote) {
  const Shape& first = tensors[0].shape();
  std::int64_t total = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    if (tensor.device().is_host()) {
      throw InvalidArgument(
          fmt::format("Expected all input tensors to be CUDA tensors, but tensor at index {} has device {}{}{}", i,
                      quote, tensor.device().name(), quote));
    }
    if (tensor.rank() != first.rank()) {
      throw InvalidArgument(fmt::format(
          "Expected all input tensors to have the same number of dimensions, but tensor at index {} has {} dimensions, "
          "(expected {})",
          i, tensor.rank(), first.rank()));
    }
    const Shape expected = first.with(dim, tensor.shape()[dim]);
    if (!(tensor.shape() == expected)) {
      throw InvalidArgument(fmt::format("Input tensor at index {} has invalid shape {}, but expected {}", i,
                                        tensor.shape().text(), expected.text()));
    }
    total += tensor.shape()[dim];
  }
  return first.with(dim, total);
}

int gather_dimension(std::string_view function, const std::vector<Tensor>& tensors, int dim) {
  if (tensors.empty()) throw InvalidArgument("Expected at least one tensor to gather from");
  require_defined(function, tensors);
  if (tensors[0].rank() == 0) {
    throw InvalidArgument(fmt::format(
        "{}: the tensor at index 0 is a number and has no dimension to join; give it one of size 1", function));
  }
  require_dtype(function, tensors[0], tensors);
  return dimension_of(tensors[0], dim);
}

void join(const std::vector<Tensor>& tensors, const Tensor& whole, int dim) {
  Sizes sizes;
  for (const Tensor& tensor : tensors) sizes.push_back(tensor.shape()[dim]);
  const std::vector<Tensor> places = split(whole, dim, sizes);
  copy_in_lanes(tensors.size(), whole.bytes(), tensors[0].device(), [&](std::size_t i) {
    const Device from = tensors[i].device(), to = whole.device();
    if (to.is_host() || from == to || !places[i].is_contiguous()) return copy_unless_same(places[i], tensors[i]);
    const Tensor packed = contiguous_copy(tensors[i]);
    push_bytes(places[i].raw_data(), to, packed.raw_data(), from, packed.bytes());
  });
  whole.count_write();
}

}  // namespace

Sizes chunk_sizes(std::int64_t size, std::size_t pieces) {
  if (size == 0) return Sizes(pieces, 0);
  const auto count = static_cast<std::int64_t>(pieces);
  const std::int64_t piece = (size + count - 1) / count;
  Sizes sizes;
  for (std::int64_t begin = 0; begin < size; begin += piece) sizes.push_back(std::min(piece, size - begin));
  return sizes;
}

std::vector<Tensor> scatter(const Tensor& tensor, const std::vector<Device>& devices, const ScatterOptions& options) {
  if (devices.empty()) throw InvalidArgument("Expected at least one device to scatter to");
  require_defined("scatter", {tensor});
  const bool sized = !options.chunk_sizes.empty();
  if (sized && options.chunk_sizes.size() != devices.size()) {
    throw InvalidArgument(
        fmt::format("Expected devices and chunk_sizes to be of same length, but got len(devices) = {} and "
                    "len(chunk_sizes) = {}",
                    devices.size(), options.chunk_sizes.size()));
  }
  if (tensor.rank() == 0) throw InvalidArgument("chunk expects at least a 1-dimensional tensor");
  const int dim = dimension_of(tensor, options.dim);
  require_devices(devices);
  require_streams(options.streams, devices);
  const Sizes sizes = sized ? options.chunk_sizes : chunk_sizes(tensor.shape()[dim], devices.size());
  require_split(sizes, tensor, dim);

  std::vector<Tensor> pieces = split(tensor, dim, sizes);
  copy_in_lanes(pieces.size(), tensor.bytes(), devices[0], [&](std::size_t i) {
    if (devices[i] == tensor.device()) return;
    const bool on_stream = i < options.streams.size() && options.streams[i];
    pieces[i] = on_stream ? copied_on(*options.streams[i], pieces[i]) : copied_to(pieces[i], devices[i]);
  });
  return pieces;
}

void scatter_into(const Tensor& tensor, const std::vector<Tensor>& outputs, int dim) {
  if (outputs.empty()) throw InvalidArgument("Expected at least one output tensor to scatter to");
  require_defined("scatter_into", {tensor});
  require_defined("scatter_into", outputs);
  if (tensor.rank() == 0) throw InvalidArgument("chunk expects at least a 1-dimensional tensor");
  const int along = dimension_of(tensor, dim);
  require_outputs_on_devices(outputs);
  const Sizes sizes = sizes_of_outputs(tensor, outputs, along);
  require_dtype("scatter_into", tensor, outputs);
  const std::vector<Tensor> pieces = split(tensor, along, sizes);
  copy_in_lanes(outputs.size(), tensor.bytes(), outputs[0].device(),
                [&](std::size_t i) { copy_unless_same(outputs[i], pieces[i]); });
}

Tensor gather(const std::vector<Tensor>& tensors, const GatherOptions& options) {
  const int dim = gather_dimension("gather", tensors, options.dim);
  const Shape shape = joined_shape(tensors, dim, "");
  const Device destination = options.destination ? *options.destination : current_device();
  if (!destination.is_host()) require_device(destination);
  const Tensor whole = empty(shape, tensors[0].dtype(), destination);
  join(tensors, whole, dim);
  return whole;
}

void gather_into(const std::vector<Tensor>& tensors, const Tensor& out, int dim) {
  const int along = gather_dimension("gather_into", tensors, dim);
  require_defined("gather_into", {out});
  require_dtype("gather_into", tensors[0], {out});
  const Shape shape = joined_shape(tensors, along, "'");
  if (!(out.shape() == shape)) {
    throw InvalidArgument(
        fmt::format("Expected out tensor to have shape {}, but got {}", shape.text(), out.shape().text()));
  }
  join(tensors, out, along);
}

}  // namespace fanout::comm
