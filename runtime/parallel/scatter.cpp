// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/scatter.h"

#include "runtime/autograd/accumulate.h"
#include "runtime/autograd/backward.h"
#include "runtime/ops/shape.h"
#include "runtime/tensor/copy.h"

namespace fanout {
namespace {

Tensor rows_of(const Tensor& tensor, int dim, std::int64_t begin, std::int64_t size) {
  return strided_view(tensor, tensor.shape().with(dim, size), tensor.strides(), begin * tensor.strides()[dim]);
}

// Output `slot` is piece `slot`; each slot's gradient is written by its own lane.
class ScatterNode final : public Node {
 public:
  ScatterNode(const Tensor& source, int dim, std::vector<std::int64_t> begins, std::vector<std::int64_t> sizes,
              std::vector<Device> devices)
      : Node(source.device().is_host() ? devices[0] : source.device(), source.shape(), source.dtype()),
        home_(source.device()),
        dim_(dim),
        begins_(std::move(begins)),
        sizes_(std::move(sizes)),
        devices_(std::move(devices)),
        pieces_(sizes_.size()) {
    add_input(source);
  }

  std::string_view name() const override { return "scatter"; }

  Destination destination(int slot) override {
    Tensor& piece = piece_of(slot);
    if (piece.defined()) return {piece = copied_to(piece, piece.device()), true};
    const auto index = static_cast<std::size_t>(slot);
    piece = empty(output_shape().with(dim_, sizes_[index]), output_dtype(), devices_[index]);
    return {piece, false};
  }

  void give(int slot, Tensor gradient, bool) override {
    Tensor& piece = piece_of(slot);
    piece = piece.defined() ? add(piece, gradient) : std::move(gradient);
  }

  void backward(BackwardPass& pass) override {
    bool complete = true;
    for (const Tensor& piece : pieces_) complete = complete && piece.defined();
    const Tensor whole =
        complete ? empty(output_shape(), output_dtype(), home_) : zeros(output_shape(), output_dtype(), home_);
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      if (pieces_[i].defined()) copy(rows_of(whole, dim_, begins_[i], sizes_[i]), pieces_[i]);
      pieces_[i] = Tensor();
    }
    pass.give(*this, 0, whole);
  }

  std::vector<Tensor> differentiate(const Tensor&) override {
    std::vector<Tensor> parts;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const Tensor piece = std::move(pieces_[i]);
      parts.push_back(piece.defined() ? to(piece, home_)
                                      : zeros(output_shape().with(dim_, sizes_[i]), output_dtype(), home_));
    }
    return {concat(parts, dim_)};
  }

 private:
  Tensor& piece_of(int slot) { return pieces_[static_cast<std::size_t>(slot)]; }

  Device home_;
  int dim_;
  std::vector<std::int64_t> begins_, sizes_;
  std::vector<Device> devices_;
  std::vector<Tensor> pieces_;
};

}  // namespace

Scatter::Scatter(const Tensor& source, int dim, const std::vector<std::int64_t>& sizes,
                 const std::vector<Device>& devices)
    : source_(source), dim_(dim), sizes_(sizes), devices_(devices) {
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes_) {
    begins_.push_back(begin);
    begin += size;
  }
  if (any_tracked(source)) node_ = make_intrusive<ScatterNode>(source, dim, begins_, sizes_, devices_);
}

Tensor Scatter::piece(std::size_t index) const {
  const Device device = devices_[index];
  const Tensor rows = rows_of(source_, dim_, begins_[index], sizes_[index]);
  const Tensor piece = source_.device() == device ? rows : copied_to(rows, device);
  if (node_) attach(piece, node_, static_cast<int>(index));
  return piece;
}

}  // namespace fanout
