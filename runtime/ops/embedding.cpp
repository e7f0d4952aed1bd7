// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/embedding.h"

#include "kernels/embedding.h"
#include "runtime/autograd/backward.h"
#include "runtime/device/context.h"
#include "runtime/ops/operands.h"

namespace fanout {
namespace {

Tensor over_shape(const Tensor& tensor, const Shape& shape) {
  return strided_view(contiguous_copy(tensor), shape, contiguous_strides(shape), 0);
}

// The gradient [..., width] of the rows at `indices` as a part of the table's gradient; views where there are no gaps.
SparseRows sparse_of(const Tensor& gradient, const Tensor& indices, std::int64_t rows) {
  const Shape flat{indices.elements()};
  return {over_shape(indices, flat), over_shape(gradient, {indices.elements(), gradient.size(-1)}), rows};
}

struct EmbeddingGradientNode final : Node {
  using Node::Node;
  SavedTensor indices;
  std::string_view name() const override { return "embedding gradient"; }
  std::vector<Tensor> differentiate(const Tensor& gradient) override {
    return {embedding(indices.unpack(name()), gradient)};
  }
  void release_saved() override { indices.release(); }
};

Tensor embedding_gradient(const Tensor& gradient, const Tensor& indices, std::int64_t rows) {
  Tensor dense = dense_of(sparse_of(gradient, indices, rows));
  if (auto* node = record<EmbeddingGradientNode>(dense, gradient)) node->indices = SavedTensor(indices);
  return dense;
}

struct EmbeddingNode final : Node {
  using Node::Node;
  SavedTensor indices;
  std::int64_t rows = 0;
  bool sparse = false;

  std::string_view name() const override { return "embedding"; }

  void backward(BackwardPass& pass) override {
    Tensor gradient = take_gradient();
    const Tensor& at = indices.unpack(name());
    if (sparse) {  // the leaf keeps the rows, so they must be nobody else's
      if (!gradient.is_exclusive()) gradient = copied_to(gradient, gradient.device());
      pass.give_sparse(*this, 0, sparse_of(gradient, copied_to(at, at.device()), rows));
      return;
    }
    const Destination to = pass.destination(*this, 0);
    if (!to.accumulate) set_zero(to.place);
    add_rows(to.place, sparse_of(gradient, at, rows));
    pass.arrived(*this, 0);
  }

  std::vector<Tensor> differentiate(const Tensor& gradient) override {
    return {embedding_gradient(gradient, indices.unpack(name()), rows)};
  }

  void release_saved() override { indices.release(); }
};

Shape with_width(const Shape& shape, std::int64_t width) {
  std::vector<std::int64_t> sizes(shape.sizes().begin(), shape.sizes().end());
  sizes.push_back(width);
  return Shape(sizes);
}

}  // namespace

Tensor embedding(const Tensor& indices, const Tensor& weight, bool sparse) {
  const Device device = common_device("embedding", indices, weight);
  if (indices.dtype() != DType::i64 || weight.rank() != 2 || !is_floating(weight.dtype())) {
    throw_operands("embedding", {&indices, &weight}, "they must be i64 indices and a weight [rows, width]");
  }
  const Packed packed_indices(indices), packed_weight(weight);
  const std::int64_t rows = weight.shape()[0], width = weight.shape()[1];
  Tensor y = empty(with_width(indices.shape(), width), weight.dtype(), device);
  dispatch_floating(weight.dtype(), "embedding", [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    const DeviceGuard guard(device);
    FANOUT_CHECK(kernels::take_rows(
        compute_stream(device).handle, y.data<T>(), static_cast<const T*>(packed_weight->data<T>()),
        static_cast<const std::int64_t*>(packed_indices->data<std::int64_t>()), indices.elements(), rows, width));
  });
  if (auto* node = record<EmbeddingNode>(y, weight)) {
    node->indices = SavedTensor(indices);
    node->rows = rows;
    node->sparse = sparse;
  }
  return y;
}

}  // namespace fanout
