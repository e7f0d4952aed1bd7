// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/copy.h"

#include <fmt/format.h>

#include <cstring>

#include "kernels/copy.h"
#include "runtime/device/context.h"
#include "runtime/device/links.h"

namespace fanout {
namespace {

kernels::StridedLayout layout_of(const Tensor& tensor) {
  kernels::StridedLayout layout{};
  layout.rank = tensor.rank();
  for (int dim = 0; dim < tensor.rank(); ++dim) {
    layout.sizes[dim] = tensor.shape()[dim];
    layout.strides[dim] = tensor.strides()[dim];
  }
  return layout;
}

// Row-major index `i` of `shape`, as an offset in elements under `strides`.
std::int64_t strided_offset(std::int64_t i, const Shape& shape, const Shape& strides) {
  std::int64_t offset = 0;
  for (int dim = shape.rank() - 1; dim >= 0; --dim) {
    offset += i % shape[dim] * strides[dim];
    i /= shape[dim];
  }
  return offset;
}

template <class T>
void pack(const Tensor& target, const Tensor& source) {  // strided source, contiguous target, one place
  if (source.device().is_host()) {
    for (std::int64_t i = 0; i < source.elements(); ++i) {
      target.data<T>()[i] = source.data<T>()[strided_offset(i, source.shape(), source.strides())];
    }
    return;
  }
  const DeviceGuard guard(source.device());
  FANOUT_CHECK(kernels::copy_strided(compute_stream(source.device()).handle, target.data<T>(), source.data<T>(),
                                     layout_of(source)));
}

template <class T>
void unpack(const Tensor& target, const Tensor& source) {  // contiguous source, strided target, one place
  if (source.device().is_host()) {
    for (std::int64_t i = 0; i < source.elements(); ++i) {
      target.data<T>()[strided_offset(i, target.shape(), target.strides())] = source.data<T>()[i];
    }
    return;
  }
  const DeviceGuard guard(source.device());
  FANOUT_CHECK(kernels::scatter_strided(compute_stream(source.device()).handle, target.data<T>(), layout_of(target),
                                        static_cast<const T*>(source.data<T>())));
}

void copy_contiguous(const Tensor& target, const Tensor& source) {
  const std::size_t bytes = source.bytes();
  copy_bytes(target.raw_data(), target.device(), source.raw_data(), source.device(), bytes);
  const bool from_pageable =
      source.device().is_host() && !target.device().is_host() && !source.body().storage->pinned();
  if (from_pageable && bytes > 0) compute_stream(target.device()).synchronize();
}

}  // namespace

void copy_bytes(void* target, Device target_device, const void* source, Device source_device, std::size_t bytes) {
  if (bytes == 0) return;
  if (target_device.is_host() && source_device.is_host()) {
    std::memcpy(target, source, bytes);
    return;
  }
  // Copies of pool memory want the stream's device current.
  const DeviceGuard guard(target_device.is_host() ? source_device : target_device);
  if (target_device.is_host()) {
    const StreamView stream = compute_stream(source_device);
    FANOUT_CHECK(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToHost, stream.handle));
    stream.synchronize();
  } else if (source_device.is_host()) {
    FANOUT_CHECK(cudaMemcpyAsync(target, source, bytes, cudaMemcpyHostToDevice, compute_stream(target_device).handle));
  } else if (target_device == source_device) {
    FANOUT_CHECK(
        cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, compute_stream(target_device).handle));
  } else {
    Stream& to = context(target_device).compute();
    Stream& from = context(source_device).compute();
    wait_for(to.view(), from);
    copy_between(target, target_device, source, source_device, bytes, to.view());
    wait_for(from.view(), to);  // the source may be overwritten or freed once its own stream goes on
  }
}

void push_bytes(void* target, Device target_device, const void* source, Device source_device, std::size_t bytes) {
  if (bytes == 0) return;
  const DeviceGuard guard(source_device);
  Stream& to = context(target_device).compute();
  Stream& from = context(source_device).compute();
  wait_for(from.view(), to);  // whose memory the target is
  copy_between(target, target_device, source, source_device, bytes, from.view());
  wait_for(to.view(), from);
}

void copy(const Tensor& target, const Tensor& source) {
  if (target.dtype() != source.dtype() || !(target.shape() == source.shape())) {
    throw InvalidArgument(fmt::format("copy: the source is {} and the target {}; dtype and shape must agree",
                                      source.text(), target.text()));
  }
  if (target.elements() == 0) return;
  const Tensor packed = contiguous_copy(source);
  if (target.is_contiguous()) {
    copy_contiguous(target, packed);
  } else {
    const Tensor staged = packed.device() == target.device() ? packed : copied_to(packed, target.device());
    dispatch_any(target.dtype(), [&]<class Tag>(Tag) { unpack<typename Tag::type>(target, staged); });
  }
  target.count_write();
}

Tensor contiguous_copy(const Tensor& tensor) {
  if (tensor.is_contiguous()) return tensor;
  const Tensor packed = empty_like(tensor);
  if (tensor.elements() == 0) return packed;
  dispatch_any(tensor.dtype(), [&]<class Tag>(Tag) { pack<typename Tag::type>(packed, tensor); });
  return packed;
}

Tensor copied_to(const Tensor& tensor, Device device, HostMemory host_memory) {
  const Tensor target = empty(tensor.shape(), tensor.dtype(), device, host_memory);
  if (target.elements() > 0) copy_contiguous(target, contiguous_copy(tensor));
  return target;
}

}  // namespace fanout
