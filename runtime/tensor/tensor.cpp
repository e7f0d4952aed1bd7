// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kernels/fill.h"
#include "runtime/device/context.h"
#include "runtime/tensor/copy.h"

namespace fanout {
namespace {

bool without_gaps(const Shape& shape, const Shape& strides) {
  std::int64_t step = 1;
  for (int dim = shape.rank() - 1; dim >= 0; --dim) {
    if (shape[dim] != 1 && strides[dim] != step) return false;
    step *= shape[dim];
  }
  return true;
}

}  // namespace

void Tensor::throw_dtype(DType asked) const {
  throw InvalidArgument(fmt::format("data<{}>() of a tensor with dtype {}", name(asked), name(dtype())));
}

std::string Tensor::text() const {
  return defined() ? fmt::format("{} {} on {}", name(dtype()), shape().text(), device().name()) : "an undefined tensor";
}

Tensor over_storage(Intrusive<Storage> storage, std::size_t offset_bytes, const Shape& shape, DType dtype) {
  auto body = make_intrusive<TensorBody>();
  body->data = static_cast<char*>(storage->pointer()) + offset_bytes;
  body->storage = std::move(storage);
  body->shape = shape;
  body->strides = contiguous_strides(shape);
  body->dtype = dtype;
  return Tensor(std::move(body));
}

Tensor empty(const Shape& shape, DType dtype, Device device, HostMemory host_memory) {
  const std::size_t bytes = static_cast<std::size_t>(shape.elements()) * size_of(dtype);
  return over_storage(Storage::allocate(device, bytes, host_memory), 0, shape, dtype);
}

Tensor empty_like(const Tensor& tensor) {
  return empty(tensor.shape(), tensor.dtype(), tensor.device());
}

Tensor zeros(const Shape& shape, DType dtype, Device device) {
  const Tensor tensor = empty(shape, dtype, device);
  if (tensor.bytes() == 0) return tensor;
  if (device.is_host()) {
    std::memset(tensor.raw_data(), 0, tensor.bytes());
  } else {
    const DeviceGuard guard(device);
    FANOUT_CHECK(cudaMemsetAsync(tensor.raw_data(), 0, tensor.bytes(), compute_stream(device).handle));
  }
  return tensor;
}

Tensor full(const Shape& shape, double value, DType dtype, Device device) {
  const Tensor tensor = empty(shape, dtype, device);
  dispatch_any(dtype, [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    if (device.is_host()) {
      std::fill_n(tensor.data<T>(), tensor.elements(), static_cast<T>(value));
    } else {
      const DeviceGuard guard(device);
      FANOUT_CHECK(
          kernels::fill(compute_stream(device).handle, tensor.data<T>(), static_cast<T>(value), tensor.elements()));
    }
  });
  return tensor;
}

template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape) {
  if (static_cast<std::int64_t>(values.size()) != shape.elements()) {
    throw InvalidArgument(fmt::format("from_vector: {} values for shape {}", values.size(), shape.text()));
  }
  const Tensor tensor = empty(shape, kDTypeOf<T>, Device::host());
  std::copy(values.begin(), values.end(), tensor.data<T>());
  return tensor;
}

Tensor strided_view(const Tensor& tensor, const Shape& shape, const Shape& strides, std::int64_t offset) {
  auto body = make_intrusive<TensorBody>();
  body->storage = tensor.body().storage;
  body->data = tensor.body().data + offset * static_cast<std::int64_t>(size_of(tensor.dtype()));
  body->shape = shape;
  body->strides = strides;
  body->dtype = tensor.dtype();
  body->contiguous = without_gaps(shape, strides);
  return Tensor(std::move(body));
}

Tensor Tensor::detach() const {
  return strided_view(*this, shape(), strides(), 0);
}

template <class T>
std::vector<T> to_vector(const Tensor& tensor) {
  const Tensor on_host =
      tensor.device().is_host() && tensor.is_contiguous() ? tensor : copied_to(tensor, Device::host());
  const T* first = on_host.data<T>();
  return std::vector<T>(first, first + on_host.elements());
}

double item(const Tensor& tensor) {
  if (tensor.elements() != 1) {
    throw InvalidArgument(fmt::format("item: one element is needed, the tensor has shape {}", tensor.shape().text()));
  }
  return dispatch_any(tensor.dtype(),
                      [&]<class Tag>(Tag) { return static_cast<double>(to_vector<typename Tag::type>(tensor)[0]); });
}

template Tensor from_vector(const std::vector<float>&, const Shape&);
template Tensor from_vector(const std::vector<double>&, const Shape&);
template Tensor from_vector(const std::vector<__nv_bfloat16>&, const Shape&);
template Tensor from_vector(const std::vector<std::int64_t>&, const Shape&);
template Tensor from_vector(const std::vector<std::uint8_t>&, const Shape&);
template std::vector<float> to_vector(const Tensor&);
template std::vector<double> to_vector(const Tensor&);
template std::vector<__nv_bfloat16> to_vector(const Tensor&);
template std::vector<std::int64_t> to_vector(const Tensor&);
template std::vector<std::uint8_t> to_vector(const Tensor&);

}  // namespace fanout
