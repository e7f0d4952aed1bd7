// SPDX-License-Identifier: Apache-2.0
// Splits tensors over devices, or copies them whole to each; backward brings the pieces' gradients home.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/autograd/node.h"
#include "runtime/parallel/structure.h"

namespace fanout {

namespace detail {

/// How rows are split: the sizes of the pieces, where they begin, and their devices. What is split the same way shares
/// it.
struct Pieces {
  std::vector<std::int64_t> sizes, begins;
  std::vector<Device> devices;

  Pieces(std::vector<std::int64_t> of_sizes, std::vector<Device> of_devices);
};

}  // namespace detail

/// A tensor that is to be split along one dimension. Pieces are made one by one, each by the lane that will use it, so
/// the copies run beside each other. A piece whose device already holds the source is a view of it.
class Scatter {
 public:
  /// `sizes` along `dim` must sum to the source's; the source may be on the host or on any device.
  Scatter(const Tensor& source, int dim, const std::vector<std::int64_t>& sizes, const std::vector<Device>& devices);
  Scatter(const Tensor& source, int dim, std::shared_ptr<const detail::Pieces> pieces);

  /// Piece `index`, on devices[index]. Different pieces may be made by different threads.
  Tensor piece(std::size_t index) const;
  Shape piece_shape(std::size_t index) const { return source_.shape().with(dim_, pieces_->sizes[index]); }
  const Tensor& source() const { return source_; }

 private:
  Tensor source_;
  int dim_;
  std::shared_ptr<const detail::Pieces> pieces_;
  Intrusive<Node> node_;
};

/// A tensor that every device gets whole. Backward sums the gradients in the order of the devices.
class Broadcast {
 public:
  Broadcast(const Tensor& source, const std::vector<Device>& devices);
  Broadcast(const Tensor& source, std::shared_ptr<const detail::Pieces> pieces);

  /// The copy on devices[index]; the source itself where that is its device.
  Tensor piece(std::size_t index) const;
  Shape piece_shape(std::size_t) const { return source_.shape(); }
  const Tensor& source() const { return source_; }

 private:
  Tensor source_;
  std::shared_ptr<const detail::Pieces> pieces_;
  Intrusive<Node> node_;
};

namespace detail {

/// " (input f64 [3, 6])", " (inputs f64 [3, 6], i64 [3])", or nothing: for messages.
std::string text_of_inputs(const std::vector<std::pair<DType, Shape>>& inputs);

/// The tensors of a value on their way to the devices.
class ScatteredInputs {
 public:
  struct Input {
    Tensor tensor;
    bool whole;
  };
  static std::vector<Input> collect(const TensorWalk& walk);
  /// The common size of the tensors to split along `dim`, or -1 if there are none. Throws InvalidArgument where they
  /// differ, or have no such dimension, with their paths from `root` on.
  static std::int64_t rows_of(const std::vector<Input>& inputs, int dim, const TensorWalk& walk, std::string_view root);

  ScatteredInputs() = default;
  ScatteredInputs(const std::vector<Input>& inputs, int dim, const std::shared_ptr<const Pieces>& pieces);

  /// Puts piece `index` of every tensor in the place where `walk`, the same as collected, finds that tensor.
  void place(std::size_t index, const TensorWalk& walk) const;
  /// What the tensors of piece `index` look like, for messages.
  std::string text(std::size_t index) const;

 private:
  std::vector<std::variant<Scatter, Broadcast>> tensors_;
};

}  // namespace detail

/// The pieces of `value` for `devices`: its tensors split along `dim` by chunk_sizes' rule, everything else copied to
/// each piece. A value without tensors to split gives one piece a device. Differentiable. Throws InvalidArgument, with
/// the path, where tensors differ in size along `dim` or have no such dimension. Source: torch.nn.parallel.scatter.
template <class T>
std::vector<T> scatter(const T& value, const std::vector<Device>& devices, int dim = 0);

namespace detail {
/// What of scatter does not depend on the value's type: the pieces for `devices`, and how many there are.
std::pair<ScatteredInputs, std::size_t> split(const TensorWalk& walk, const std::vector<Device>& devices, int dim);

template <class T>
std::vector<T> pieces_of(const T& value, const ScatteredInputs& inputs, std::size_t count) {
  std::vector<T> pieces(count, value);
  for (std::size_t index = 0; index < count; ++index) {
    inputs.place(index, [&](TensorVisitor& visitor) { visitor.walk(pieces[index]); });
  }
  return pieces;
}
}  // namespace detail

template <class T>
std::vector<T> scatter(const T& value, const std::vector<Device>& devices, int dim) {
  T whole = value;
  const auto [inputs, count] = detail::split([&](TensorVisitor& visitor) { visitor.walk(whole); }, devices, dim);
  return detail::pieces_of(value, inputs, count);
}

}  // namespace fanout
