// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/gather.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/autograd/backward.h"
#include "runtime/autograd/node.h"
#include "runtime/ops/shape.h"
#include "runtime/parallel/outline.h"
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

void require_agreement(const std::vector<Tensor>& outputs, int dim, const std::vector<detail::OutputOrigin>& origins,
                       const std::function<std::string()>& path) {
  const Tensor& first = outputs[0];
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& other = outputs[i];
    const bool same_kind = other.dtype() == first.dtype() && other.rank() == first.rank();
    if (same_kind && (first.rank() == 0 || other.shape().with(dim, first.shape()[dim]) == first.shape())) continue;
    std::string hint;
    for (const std::size_t odd : {std::size_t{0}, i}) {
      if (other.rank() == first.rank() || origins[odd].rows != 1) continue;
      hint =
          fmt::format("; replica {} had 1 row: a squeeze may have removed its batch dimension", origins[odd].replica);
    }
    throw InvalidArgument(fmt::format(
        "gather: {} has shape {} ({}) in replica {} on {} and {} ({}) in replica {} on {}; dtype and all dimensions "
        "but {} must agree{}",
        path(), first.shape().text(), name(first.dtype()), origins[0].replica, origins[0].device.name(),
        other.shape().text(), name(other.dtype()), origins[i].replica, origins[i].device.name(), dim, hint));
  }
}

// False if no replica returned this tensor: then nothing is joined. Throws InvalidArgument if only some did.
bool any_defined(const std::vector<Tensor>& outputs, const std::vector<detail::OutputOrigin>& origins,
                 const std::function<std::string()>& path) {
  for (std::size_t i = 1; i < outputs.size(); ++i) {
    if (outputs[i].defined() == outputs[0].defined()) continue;
    const detail::OutputOrigin& without = origins[outputs[0].defined() ? i : 0];
    throw InvalidArgument(fmt::format("gather: {} is undefined in replica {} on {} and defined in another", path(),
                                      without.replica, without.device.name()));
  }
  return outputs[0].defined();
}

// The tensor that is joined along `dim`: a number counts as one element.
Tensor joinable(const Tensor& output) {
  return output.rank() == 0 ? GatherPieceNode::over_shape(output, Shape{1}) : output;
}

// `joined` as the result of all `outputs`, each with `sizes` elements along `dim`.
void record_gather(const Tensor& joined, const std::vector<Tensor>& outputs, int dim, std::vector<std::int64_t> sizes) {
  auto node = make_intrusive<GatherNode>(joined, dim, std::move(sizes));
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
}

Tensor join(const std::vector<Tensor>& outputs, int dim, Device target) {
  const bool numbers = outputs[0].rank() == 0;
  std::vector<std::int64_t> sizes;
  std::int64_t total = 0;
  bool needs_graph = false;
  for (const Tensor& output : outputs) {
    sizes.push_back(numbers ? 1 : output.shape()[dim]);
    total += sizes.back();
    needs_graph = needs_graph || any_tracked(output);
  }
  const Shape shape = (numbers ? Shape{1} : outputs[0].shape()).with(dim, total);
  const Tensor joined = empty(shape, outputs[0].dtype(), target);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < outputs.size(); begin += sizes[i++]) {
    copy(strided_view(joined, shape.with(dim, sizes[i]), joined.strides(), begin * joined.strides()[dim]),
         joinable(outputs[i]));
  }
  if (needs_graph) record_gather(joined, outputs, dim, std::move(sizes));
  return joined;
}

}  // namespace

void detail::join_outputs(const std::vector<TensorWalk>& walks, const std::vector<OutputOrigin>& origins, int dim,
                          Device target) {
  if (walks.empty()) throw InvalidArgument("gather: expected at least one output to gather from");
  if (!target.is_host()) require_device(target);
  const Outline outline(walks[0]);
  std::vector<std::vector<Tensor>> tensors(outline.tensors().size());  // [tensor][replica]
  for (std::size_t number = 0; number < tensors.size(); ++number) tensors[number] = {*outline.tensors()[number]};
  for (std::size_t replica = 1; replica < walks.size(); ++replica) {
    std::vector<Tensor> found = outline.matching_tensors(walks[replica], origins[0], origins[replica]);
    for (std::size_t number = 0; number < found.size(); ++number) tensors[number].push_back(std::move(found[number]));
  }
  for (std::size_t number = 0; number < tensors.size(); ++number) {
    const std::vector<Tensor>& parts = tensors[number];
    const auto path = [&] { return path_of(walks[0], "output", number); };
    if (!any_defined(parts, origins, path)) continue;
    const int along = parts[0].rank() == 0 ? 0 : parts[0].shape().normalize(dim);
    require_agreement(parts, along, origins, path);
    *outline.tensors()[number] = join(parts, along, target);
  }
}

}  // namespace fanout
