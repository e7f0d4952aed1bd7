// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "runtime/autograd/accumulate.h"
#include "runtime/autograd/backward.h"
#include "runtime/autograd/node.h"
#include "runtime/ops/fold.h"
#include "runtime/ops/operands.h"

namespace fanout {
namespace {

void require_defined(const char* operation, const Tensor& x) {
  if (!x.defined()) [[unlikely]]
    throw InvalidArgument(fmt::format("{}: an undefined tensor", operation));
}

struct ReshapeNode final : Node {
  using Node::Node;
  Shape from;
  std::string_view name() const override { return "reshape"; }
  std::vector<Tensor> differentiate(const Tensor& gradient) override { return {reshape(gradient, from)}; }
};

struct TransposeNode final : Node {
  using Node::Node;
  int dim0 = 0, dim1 = 1;
  std::string_view name() const override { return "transpose"; }
  std::vector<Tensor> differentiate(const Tensor& gradient) override { return {transpose(gradient, dim0, dim1)}; }
};

struct ContiguousNode final : Node {
  using Node::Node;
  std::string_view name() const override { return "contiguous"; }
  std::vector<Tensor> differentiate(const Tensor& gradient) override { return {gradient}; }
};

// A range of one dimension.
struct Range {
  int dim = 0;
  std::int64_t start = 0, length = 0;
};

Tensor range_view(const Tensor& x, const Range& range) {
  return strided_view(x, x.shape().with(range.dim, range.length), x.strides(), range.start * x.strides()[range.dim]);
}

Tensor padded(const Tensor& x, const Range& range, const Shape& shape);

struct PaddedNode final : Node {
  using Node::Node;
  Range range;
  std::string_view name() const override { return "pad"; }
  std::vector<Tensor> differentiate(const Tensor& gradient) override {
    return {narrow(gradient, range.dim, range.start, range.length)};
  }
};

// Zeros of `shape`, with x in a range of them.
Tensor padded(const Tensor& x, const Range& range, const Shape& shape) {
  Tensor whole = zeros(shape, x.dtype(), x.device());
  copy(range_view(whole, range), x);
  if (auto* node = record<PaddedNode>(whole, x)) node->range = range;
  return whole;
}

struct NarrowNode final : Node {
  using Node::Node;
  Range range;
  Shape from;
  std::string_view name() const override { return "narrow"; }

  // Writes its own part only, so that many ranges of one tensor do not cost a whole tensor each.
  void backward(BackwardPass& pass) override {
    const Tensor gradient = take_gradient();
    const Packed packed(gradient);
    const Destination to = pass.destination(*this, 0);
    const Tensor part = range_view(to.place, range);
    if (to.accumulate) {
      add_part(part, *packed);
    } else {
      set_zero(to.place);
      copy(part, *packed);
    }
    pass.arrived(*this, 0);
  }

  std::vector<Tensor> differentiate(const Tensor& gradient) override { return {padded(gradient, range, from)}; }

 private:
  static void add_part(const Tensor& part, const Tensor& gradient) {
    if (part.is_contiguous()) {
      add_in_place(part, gradient);
      return;
    }
    const Tensor sum = contiguous_copy(part);
    add_in_place(sum, gradient);
    copy(part, sum);
  }
};

struct ConcatNode final : Node {
  using Node::Node;
  int dim = 0;
  std::vector<std::int64_t> lengths;
  std::string_view name() const override { return "concat"; }
  std::vector<Tensor> differentiate(const Tensor& gradient) override {
    std::vector<Tensor> gradients;
    std::int64_t start = 0;
    for (std::int64_t length : lengths) {
      gradients.push_back(narrow(gradient, dim, start, length));
      start += length;
    }
    return gradients;
  }
};

// Its output, and so its incoming gradient, is on another device than the node, which runs where its input is.
class ToNode final : public Node {
 public:
  ToNode(const Tensor& from, Device to) : Node(from.device(), from.shape(), from.dtype()), to_(to) {}
  std::string_view name() const override { return "to"; }

  Destination destination(int slot) override {
    if (gradient().defined()) return Node::destination(slot);
    Tensor place = empty(output_shape(), output_dtype(), to_);
    Node::give(slot, place, false);
    return {place, false};
  }

  void backward(BackwardPass& pass) override {
    const Tensor gradient = take_gradient();
    const Destination back = pass.destination(*this, 0);
    if (back.accumulate) {
      add_in_place(back.place, copied_to(gradient, device()));
    } else {
      copy(back.place, gradient);
    }
    pass.arrived(*this, 0);
  }

  std::vector<Tensor> differentiate(const Tensor& gradient) override { return {to(gradient, device())}; }

 private:
  Device to_;
};

// Replaces the one -1 in `sizes`.
Shape resolved(const Tensor& x, std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> result(sizes.begin(), sizes.end());
  std::int64_t known = 1;
  std::int64_t* open = nullptr;
  bool valid = true;
  for (std::int64_t& size : result) {
    if (size != -1) {
      known *= size;
    } else {
      valid = valid && open == nullptr;
      open = &size;
    }
    valid = valid && size >= -1;
  }
  if (open != nullptr && known > 0) *open = x.elements() / known;
  valid = valid && (open == nullptr || known > 0);
  if (!valid || known * (open != nullptr ? *open : 1) != x.elements()) {
    throw InvalidArgument(fmt::format(
        "reshape: {} has {} elements, which do not fit [{}]; at most one size may be -1, and only beside sizes above 0",
        x.text(), x.elements(), fmt::join(sizes, ", ")));
  }
  return Shape(result);
}

void require_alike(const std::vector<Tensor>& tensors, int dim) {
  const Tensor& first = tensors.front();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    require_defined("concat", tensor);
    const bool same_place = tensor.device() == first.device() && tensor.dtype() == first.dtype();
    const bool same_rank = tensor.rank() == first.rank();
    if (same_place && same_rank && tensor.shape().with(dim, 0) == first.shape().with(dim, 0)) continue;
    const std::string text = fmt::format(
        "concat: tensor 0 is {} and tensor {} is {}; all dimensions but {}, dtype and "
        "device must agree",
        first.text(), i, tensor.text(), dim);
    if (tensor.device() != first.device()) throw PlacementError(text);
    throw InvalidArgument(text);
  }
}

}  // namespace

Tensor reshape(const Tensor& x, std::span<const std::int64_t> sizes) {
  require_defined("reshape", x);
  const Shape shape = resolved(x, sizes);
  Tensor y = strided_view(contiguous_copy(x), shape, contiguous_strides(shape), 0);
  if (auto* node = record<ReshapeNode>(y, x)) node->from = x.shape();
  return y;
}

Tensor flatten(const Tensor& x, int first_dim) {
  require_defined("flatten", x);
  const int first = x.shape().normalize(first_dim);
  std::vector<std::int64_t> sizes(x.shape().sizes().begin(), x.shape().sizes().begin() + first);
  sizes.push_back(x.shape().elements(first, x.rank()));
  return reshape(x, std::span<const std::int64_t>(sizes));
}

Tensor transpose(const Tensor& x, int dim0, int dim1) {
  require_defined("transpose", x);
  const int first = x.shape().normalize(dim0), second = x.shape().normalize(dim1);
  Shape shape = x.shape(), strides = x.strides();
  std::swap(shape[first], shape[second]);
  std::swap(strides[first], strides[second]);
  Tensor y = strided_view(x, shape, strides, 0);
  if (auto* node = record<TransposeNode>(y, x)) {
    node->dim0 = first;
    node->dim1 = second;
  }
  return y;
}

Tensor narrow(const Tensor& x, int dim, std::int64_t start, std::int64_t length) {
  require_defined("narrow", x);
  const Range range{x.shape().normalize(dim), start, length};
  const std::int64_t size = x.shape()[range.dim];
  if (start < 0 || length < 0 || start > size || length > size - start) {
    throw InvalidArgument(fmt::format("narrow: {} elements from {} of dimension {}, which has {}, of {}", length, start,
                                      range.dim, size, x.text()));
  }
  Tensor y = range_view(x, range);
  if (auto* node = record<NarrowNode>(y, x)) {
    node->range = range;
    node->from = x.shape();
  }
  return y;
}

Tensor expand(const Tensor& x, const Shape& shape) {
  common_device("expand", x);
  if (x.elements() == 1) return fold_repeat(x, {1, shape.elements(), 1}, shape, 1);
  const int leading = shape.rank() - x.rank();
  bool fits = leading >= 0;
  for (int dim = 0; fits && dim < x.rank(); ++dim) fits = x.shape()[dim] == shape[leading + dim];
  if (!fits) {
    throw_operands("expand", {&x},
                   fmt::format("its shape is not the last dimensions of {}, nor has it one element", shape.text()));
  }
  return fold_repeat(x, {1, shape.elements(0, leading), x.elements()}, shape, 1);
}

Tensor concat(const std::vector<Tensor>& tensors, int dim) {
  if (tensors.empty()) throw InvalidArgument("concat: no tensors; at least one is needed");
  require_defined("concat", tensors.front());
  const int along = tensors.front().shape().normalize(dim);
  require_alike(tensors, along);
  std::int64_t total = 0;
  bool needs_node = false;
  for (const Tensor& tensor : tensors) {
    total += tensor.shape()[along];
    needs_node = needs_node || any_tracked(tensor);
  }
  const Tensor& first = tensors.front();
  Tensor y = empty(first.shape().with(along, total), first.dtype(), first.device());
  std::int64_t start = 0;
  for (const Tensor& tensor : tensors) {
    copy(range_view(y, {along, start, tensor.shape()[along]}), tensor);
    start += tensor.shape()[along];
  }
  if (!needs_node) return y;
  auto node = make_intrusive<ConcatNode>(y);
  node->dim = along;
  for (const Tensor& tensor : tensors) {
    node->lengths.push_back(tensor.shape()[along]);
    node->add_input(tensor);
  }
  attach(y, std::move(node));
  return y;
}

Tensor contiguous(const Tensor& x) {
  require_defined("contiguous", x);
  if (x.is_contiguous()) return x;
  Tensor y = contiguous_copy(x);
  record<ContiguousNode>(y, x);
  return y;
}

Tensor to(const Tensor& x, Device device) {
  require_defined("to", x);
  if (x.device() == device) return x;
  Tensor y = copied_to(x, device);
  if (!any_tracked(x)) return y;
  auto node = make_intrusive<ToNode>(x, device);
  node->add_input(x);
  attach(y, std::move(node));
  return y;
}

}  // namespace fanout
