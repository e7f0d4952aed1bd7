// SPDX-License-Identifier: Apache-2.0
// The tensor: a shared handle to elements of one dtype on one device, and its place in the autograd graph.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/tensor/dtype.h"
#include "runtime/tensor/shape.h"
#include "runtime/tensor/storage.h"

namespace fanout {

class Tensor;

/// What the handles of one tensor share. The autograd fields are nodes (autograd/node.h); this layer only keeps them.
struct TensorBody final : RefCounted {
  Intrusive<Storage> storage;
  char* data = nullptr;
  Shape shape;
  Shape strides;
  DType dtype = DType::f32;
  bool contiguous = true;
  bool requires_grad = false;
  /// The node whose output `slot` this tensor is; none for a leaf.
  Intrusive<RefCounted> producer;
  int slot = 0;
  /// A leaf's gradient; none until it requires one.
  Intrusive<RefCounted> sink;
};

/// A shared handle: copies name the same elements. Copying a tensor never copies memory.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Intrusive<TensorBody> body) : body_(std::move(body)) {}

  bool defined() const { return static_cast<bool>(body_); }
  const Shape& shape() const { return body_->shape; }
  int rank() const { return body_->shape.rank(); }
  /// Size of dimension `dim`; negative ones count from the back.
  std::int64_t size(int dim) const { return body_->shape[body_->shape.normalize(dim)]; }
  std::int64_t elements() const { return body_->shape.elements(); }
  /// In elements.
  const Shape& strides() const { return body_->strides; }
  bool is_contiguous() const { return body_->contiguous; }
  DType dtype() const { return body_->dtype; }
  Device device() const { return body_->storage->device(); }
  std::uint32_t version() const { return body_->storage->version(); }

  /// First element. Throws InvalidArgument if T is not the tensor's dtype. Elements on a device are not for the host to
  /// read.
  template <class T>
  T* data() const {
    if (kDTypeOf<T> != body_->dtype) [[unlikely]]
      throw_dtype(kDTypeOf<T>);
    return reinterpret_cast<T*>(body_->data);
  }
  void* raw_data() const { return body_->data; }
  /// True if this handle alone sees the elements, so that nobody notices when they are overwritten: no other handle,
  /// view or saved tensor has them, and they are no part of a flat buffer.
  bool is_exclusive() const { return is_contiguous() && body_->has_one_owner() && body_->storage->is_exclusive(); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * size_of(dtype()); }

  /// Says that the elements were, or will be, written in place: what was saved for backward or sent to replicas is
  /// stale.
  void count_write() const { body_->storage->count_write(); }

  // Autograd; defined in runtime/autograd.
  bool requires_grad() const { return body_->requires_grad; }
  /// Makes this leaf collect a gradient in backward (or no longer). Throws InvalidArgument for a result of operators
  /// and for integers. Returns the tensor itself.
  const Tensor& set_requires_grad(bool on = true) const;
  /// The gradient that backward left here; an undefined tensor if it left none. Shares memory with the real one.
  Tensor grad() const;
  /// Forgets the gradient; its memory is kept for the next one.
  void clear_grad() const;
  /// Computes the gradients of this one-element tensor with respect to all leaves it depends on and adds them there.
  void backward() const;
  /// The same elements, outside the graph.
  Tensor detach() const;

  TensorBody& body() const { return *body_; }
  const Intrusive<TensorBody>& handle() const { return body_; }
  /// "f32 [32, 10] on cuda:1": for messages.
  std::string text() const;

 private:
  [[noreturn]] void throw_dtype(DType asked) const;

  Intrusive<TensorBody> body_;
};

/// A tensor of unset elements.
Tensor empty(const Shape& shape, DType dtype, Device device, HostMemory host_memory = HostMemory::pageable);
Tensor empty_like(const Tensor& tensor);
Tensor zeros(const Shape& shape, DType dtype, Device device);
Tensor full(const Shape& shape, double value, DType dtype, Device device);
/// A host tensor with these elements, row-major. Throws InvalidArgument if their number is not the shape's.
template <class T>
Tensor from_vector(const std::vector<T>& values, const Shape& shape);
/// A contiguous tensor over (part of) `storage`, from byte `offset_bytes`.
Tensor over_storage(Intrusive<Storage> storage, std::size_t offset_bytes, const Shape& shape, DType dtype);
/// A view of the same storage with other sizes and strides (in elements), `offset` elements behind the tensor's first.
Tensor strided_view(const Tensor& tensor, const Shape& shape, const Shape& strides, std::int64_t offset);

/// The elements as a host vector, row-major; waits for the device's compute stream.
template <class T>
std::vector<T> to_vector(const Tensor& tensor);
/// The only element, as a double; waits. Throws InvalidArgument if there is not exactly one.
double item(const Tensor& tensor);

}  // namespace fanout
