// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/gather.h"

#include <fmt/format.h>

#include "runtime/autograd/backward.h"
#include "runtime/autograd/node.h"
#include "runtime/ops/shape.h"
#include "runtime/tensor/copy.h"

namespace fanout {
namespace {

// Carries one replica's part of the gradient to the replica's device, on that device's lane.
struct GatherPieceNode final : Node {
  explicit GatherPieceNode(const Tensor& output) : Node(output) { add_input(output); }
  std::string_view name() const override { return "gather piece"; }

  void backward(BackwardPass& pass) override {
    Tensor part = take_gradient();
    if (part.device() != device()) part = copied_to(part, device());
    if (!(part.shape() == output_shape())) part = over_shape(contiguous_copy(part), output_shape());
    pass.give(*this, 0, std::move(part));
  }
  std::vector<Tensor> differentiate(const Tensor& gradient) override {
    return {reshape(to(gradient, device()), output_shape())};
  }

  static Tensor over_shape(const Tensor& tensor, const Shape& shape) {
    return strided_view(tensor, shape, contiguous_strides(shape), 0);
  }
};

struct GatherNode final : Node {
  GatherNode(const Tensor& joined, int dim, std::vector<std::int64_t> sizes)
      : Node(joined), dim_(dim), sizes_(std::move(sizes)) {}
  std::string_view name() const override { return "gather"; }

  void backward(BackwardPass& pass) override {
    const Tensor joined = take_gradient();
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < sizes_.size(); begin += sizes_[i++]) {
      if (!needs_gradient(i)) continue;
      pass.give(
          *this, i,
          strided_view(joined, joined.shape().with(dim_, sizes_[i]), joined.strides(), begin * joined.strides()[dim_]));
    }
  }
  std::vector<Tensor> differentiate(const Tensor& gradient) override {
    std::vector<Tensor> parts;
    std::int64_t begin = 0;
    for (const std::int64_t size : sizes_) {
      parts.push_back(narrow(gradient, dim_, begin, size));
      begin += size;
    }
    return parts;
  }

 private:
  int dim_;
  std::vector<std::int64_t> sizes_;
};

void require_agreement(const std::vector<Tensor>& outputs, int dim, const std::string& what) {
  const Tensor& first = outputs[0];
  for (const Tensor& other : outputs) {
    const bool same_kind = other.dtype() == first.dtype() && other.rank() == first.rank();
    if (same_kind && (first.rank() == 0 || other.shape().with(dim, first.shape()[dim]) == first.shape())) continue;
    throw InvalidArgument(
        fmt::format("gather: {} has shape {} ({}) on {} and {} ({}) on {}; dtype and all dimensions but {} must agree",
                    what, first.shape().text(), name(first.dtype()), first.device().name(), other.shape().text(),
                    name(other.dtype()), other.device().name(), dim));
  }
}

// The tensor that `gather` joins along `dim`: a number counts as one element.
Tensor joinable(const Tensor& output) {
  return output.rank() == 0 ? GatherPieceNode::over_shape(output, Shape{1}) : output;
}

}  // namespace

Tensor gather(const std::vector<Tensor>& outputs, int dim, Device target, const std::string& what) {
  if (outputs.empty()) throw InvalidArgument("gather: expected at least one tensor to gather from");
  const bool numbers = outputs[0].rank() == 0;
  const int along = numbers ? 0 : outputs[0].shape().normalize(dim);
  require_agreement(outputs, along, what);

  std::vector<std::int64_t> sizes;
  std::int64_t total = 0;
  for (const Tensor& output : outputs) {
    sizes.push_back(numbers ? 1 : output.shape()[along]);
    total += sizes.back();
  }
  const Shape joined_shape = (numbers ? Shape{1} : outputs[0].shape()).with(along, total);
  const Tensor joined = empty(joined_shape, outputs[0].dtype(), target);
  std::int64_t begin = 0;
  bool needs_graph = false;
  for (std::size_t i = 0; i < outputs.size(); begin += sizes[i++]) {
    const Tensor part =
        strided_view(joined, joined_shape.with(along, sizes[i]), joined.strides(), begin * joined.strides()[along]);
    copy(part, joinable(outputs[i]));
    needs_graph = needs_graph || any_tracked(outputs[i]);
  }
  if (!needs_graph) return joined;

  auto node = make_intrusive<GatherNode>(joined, along, sizes);
  for (const Tensor& output : outputs) {
    if (!tracked(output)) {
      node->add_input(Tensor());
      continue;
    }
    const Tensor piece = output.detach();
    attach(piece, make_intrusive<GatherPieceNode>(output));
    node->add_input(piece);
  }
  attach(joined, std::move(node));
  return joined;
}

}  // namespace fanout
