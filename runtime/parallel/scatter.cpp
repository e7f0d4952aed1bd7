// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/scatter.h"

#include <fmt/format.h>

#include "runtime/autograd/accumulate.h"
#include "runtime/autograd/backward.h"
#include "runtime/ops/shape.h"
#include "runtime/parallel/chunk.h"
#include "runtime/tensor/copy.h"

namespace fanout {
namespace {

Tensor rows_of_tensor(const Tensor& tensor, int dim, std::int64_t begin, std::int64_t size) {
  return strided_view(tensor, tensor.shape().with(dim, size), tensor.strides(), begin * tensor.strides()[dim]);
}

// Output `slot` is the piece on devices[slot]; each slot's gradient is written by its own lane.
class PiecesNode : public Node {
 public:
  PiecesNode(const Tensor& source, const std::vector<Device>& devices)
      : Node(source.device().is_host() ? devices[0] : source.device(), source.shape(), source.dtype()),
        home_(source.device()),
        devices_(devices),
        pieces_(devices.size()) {
    shared_by_replicas = true;
    add_input(source);
  }

  Destination destination(int slot) override {
    Tensor& piece = piece_of(slot);
    if (piece.defined()) return {piece = copied_to(piece, piece.device()), true};
    piece = empty(shape_of(slot), output_dtype(), devices_[static_cast<std::size_t>(slot)]);
    return {piece, false};
  }

  void give(int slot, Tensor gradient, bool) override {
    Tensor& piece = piece_of(slot);
    piece = piece.defined() ? add(piece, gradient) : std::move(gradient);
  }

 protected:
  virtual Shape shape_of(int slot) const = 0;
  Device home() const { return home_; }
  std::size_t count() const { return pieces_.size(); }
  /// The gradient of piece `slot` with its hooks applied, undefined if there is none.
  Tensor take_piece(std::size_t slot) {
    Tensor piece = std::exchange(pieces_[slot], Tensor());
    apply_hooks(static_cast<int>(slot), piece);
    return piece;
  }

 private:
  Tensor& piece_of(int slot) { return pieces_[static_cast<std::size_t>(slot)]; }

  Device home_;
  std::vector<Device> devices_;
  std::vector<Tensor> pieces_;
};

class ScatterNode final : public PiecesNode {
 public:
  ScatterNode(const Tensor& source, int dim, std::vector<std::int64_t> begins, std::vector<std::int64_t> sizes,
              const std::vector<Device>& devices)
      : PiecesNode(source, devices), dim_(dim), begins_(std::move(begins)), sizes_(std::move(sizes)) {}

  std::string_view name() const override { return "scatter"; }

  void backward(BackwardPass& pass) override {
    std::vector<Tensor> pieces;
    bool complete = true;
    for (std::size_t i = 0; i < count(); ++i) {
      pieces.push_back(take_piece(i));
      complete = complete && pieces.back().defined();
    }
    const Tensor whole =
        complete ? empty(output_shape(), output_dtype(), home()) : zeros(output_shape(), output_dtype(), home());
    for (std::size_t i = 0; i < count(); ++i) {
      if (pieces[i].defined()) copy(rows_of_tensor(whole, dim_, begins_[i], sizes_[i]), pieces[i]);
    }
    pass.give(*this, 0, whole);
  }

  std::vector<Tensor> differentiate(const Tensor&) override {
    std::vector<Tensor> parts;
    for (std::size_t i = 0; i < count(); ++i) {
      const Tensor piece = take_piece(i);
      parts.push_back(piece.defined() ? to(piece, home())
                                      : zeros(output_shape().with(dim_, sizes_[i]), output_dtype(), home()));
    }
    return {concat(parts, dim_)};
  }

 private:
  Shape shape_of(int slot) const override { return output_shape().with(dim_, sizes_[static_cast<std::size_t>(slot)]); }

  int dim_;
  std::vector<std::int64_t> begins_, sizes_;
};

class BroadcastNode final : public PiecesNode {
 public:
  using PiecesNode::PiecesNode;
  std::string_view name() const override { return "broadcast"; }

  void backward(BackwardPass& pass) override {
    Tensor sum;
    for (std::size_t i = 0; i < count(); ++i) {
      const Tensor piece = take_piece(i);
      if (!piece.defined()) continue;
      const Tensor here = copied_to(piece, home());
      if (sum.defined()) {
        add_in_place(sum, here);
      } else {
        sum = here;
      }
    }
    pass.give(*this, 0, sum);
  }

  std::vector<Tensor> differentiate(const Tensor&) override {
    Tensor sum;
    for (std::size_t i = 0; i < count(); ++i) {
      const Tensor piece = take_piece(i);
      if (!piece.defined()) continue;
      const Tensor here = to(piece, device());
      sum = sum.defined() ? add(sum, here) : here;
    }
    return {to(sum, home())};
  }

 private:
  Shape shape_of(int) const override { return output_shape(); }
};

}  // namespace

detail::Pieces::Pieces(std::vector<std::int64_t> of_sizes, std::vector<Device> of_devices)
    : sizes(std::move(of_sizes)), devices(std::move(of_devices)) {
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    begins.push_back(begin);
    begin += size;
  }
}

Scatter::Scatter(const Tensor& source, int dim, const std::vector<std::int64_t>& sizes,
                 const std::vector<Device>& devices)
    : Scatter(source, dim, std::make_shared<const detail::Pieces>(sizes, devices)) {}

Scatter::Scatter(const Tensor& source, int dim, std::shared_ptr<const detail::Pieces> pieces)
    : source_(source), dim_(dim), pieces_(std::move(pieces)) {
  if (!any_tracked(source)) return;
  node_ = make_intrusive<ScatterNode>(source, dim, pieces_->begins, pieces_->sizes, pieces_->devices);
}

Tensor Scatter::piece(std::size_t index) const {
  const Device device = pieces_->devices[index];
  const Tensor rows = rows_of_tensor(source_, dim_, pieces_->begins[index], pieces_->sizes[index]);
  const Tensor piece = source_.device() == device ? rows : copied_to(rows, device);
  if (node_) attach(piece, node_, static_cast<int>(index));
  return piece;
}

Broadcast::Broadcast(const Tensor& source, const std::vector<Device>& devices)
    : Broadcast(source, std::make_shared<const detail::Pieces>(std::vector<std::int64_t>(), devices)) {}

Broadcast::Broadcast(const Tensor& source, std::shared_ptr<const detail::Pieces> pieces)
    : source_(source), pieces_(std::move(pieces)) {
  if (any_tracked(source)) node_ = make_intrusive<BroadcastNode>(source, pieces_->devices);
}

Tensor Broadcast::piece(std::size_t index) const {
  const Device device = pieces_->devices[index];
  const Tensor piece = source_.device() == device ? source_.detach() : copied_to(source_, device);
  if (node_) attach(piece, node_, static_cast<int>(index));
  return piece;
}

namespace detail {

std::vector<ScatteredInputs::Input> ScatteredInputs::collect(const TensorWalk& walk) {
  struct Collecting final : TensorVisitor {
    Collecting() : TensorVisitor("") {}
    void tensor(Tensor& tensor, bool whole) override { found.push_back({tensor, whole}); }
    std::vector<Input> found;
  } visitor;
  walk(visitor);
  return std::move(visitor.found);
}

std::int64_t ScatteredInputs::rows_of(const std::vector<Input>& inputs, int dim, const TensorWalk& walk,
                                      std::string_view root) {
  std::int64_t rows = -1;
  std::size_t first = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto& [input, whole] = inputs[i];
    if (!input.defined()) throw InvalidArgument(fmt::format("scatter: {} is undefined", path_of(walk, root, i)));
    if (whole) continue;
    if (input.rank() == 0) {
      throw InvalidArgument(fmt::format("scatter: {} has no dimension to split; pass a plain number, or unsplit(x)",
                                        path_of(walk, root, i)));
    }
    const std::int64_t size = input.shape()[input.shape().normalize(dim)];
    if (rows < 0) {
      rows = size;
      first = i;
    }
    if (size == rows) continue;
    throw InvalidArgument(fmt::format(
        "scatter: {} has shape {} and {} has shape {}; both are split along dimension {} and must have the same size "
        "there (unsplit(x) gives every replica the whole)",
        path_of(walk, root, first), inputs[first].tensor.shape().text(), path_of(walk, root, i), input.shape().text(),
        dim));
  }
  return rows;
}

ScatteredInputs::ScatteredInputs(const std::vector<Input>& inputs, int dim,
                                 const std::shared_ptr<const Pieces>& pieces) {
  tensors_.reserve(inputs.size());
  for (const auto& [tensor, whole] : inputs) {
    if (whole) {
      tensors_.emplace_back(std::in_place_type<Broadcast>, tensor, pieces);
    } else {
      tensors_.emplace_back(std::in_place_type<Scatter>, tensor, tensor.shape().normalize(dim), pieces);
    }
  }
}

void ScatteredInputs::place(std::size_t index, const TensorWalk& walk) const {
  struct Placing final : TensorVisitor {
    Placing(const ScatteredInputs& inputs, std::size_t piece) : TensorVisitor(""), owner(inputs), index(piece) {}
    void tensor(Tensor& tensor, bool) override {
      tensor = std::visit([this](const auto& input) { return input.piece(index); }, owner.tensors_[number++]);
    }
    const ScatteredInputs& owner;
    std::size_t index, number = 0;
  } visitor(*this, index);
  walk(visitor);
}

std::string ScatteredInputs::text(std::size_t index) const {
  std::vector<std::pair<DType, Shape>> inputs;
  for (const auto& tensor : tensors_) {
    std::visit([&](const auto& input) { inputs.emplace_back(input.source().dtype(), input.piece_shape(index)); },
               tensor);
  }
  return text_of_inputs(inputs);
}

std::string text_of_inputs(const std::vector<std::pair<DType, Shape>>& inputs) {
  if (inputs.empty()) return {};
  std::string list;
  for (const auto& [dtype, shape] : inputs) {
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", name(dtype), shape.text());
  }
  return fmt::format(" ({} {})", inputs.size() == 1 ? "input" : "inputs", list);
}

std::pair<ScatteredInputs, std::size_t> split(const TensorWalk& walk, const std::vector<Device>& devices, int dim) {
  if (devices.empty()) throw InvalidArgument("scatter: expected at least one device to scatter to");
  for (const Device device : devices) require_device(device);
  const std::vector<ScatteredInputs::Input> inputs = ScatteredInputs::collect(walk);
  const std::int64_t rows = ScatteredInputs::rows_of(inputs, dim, walk, "input");
  const auto sizes =
      rows < 0 ? std::vector<std::int64_t>(devices.size(), 0) : chunk_sizes(rows, static_cast<int>(devices.size()));
  const std::vector<Device> used(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(sizes.size()));
  return {ScatteredInputs(inputs, dim, std::make_shared<const Pieces>(sizes, used)), sizes.size()};
}

}  // namespace detail
}  // namespace fanout
