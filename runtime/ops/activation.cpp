// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/activation.h"

#include <cmath>
#include <numbers>

#include "kernels/activation.h"
#include "kernels/softmax.h"
#include "runtime/autograd/backward.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/ops/elementwise.h"
#include "runtime/ops/fold.h"
#include "runtime/ops/reduce.h"

namespace fanout {
namespace {

Tensor gelu_gradient(const Tensor& gradient, const Tensor& x);

// Each kernel as an object, so that it can be passed on.
constexpr auto relu_kernel = [](auto... arguments) { return kernels::relu(arguments...); };
constexpr auto relu_backward_kernel = [](auto... arguments) { return kernels::relu_backward(arguments...); };
constexpr auto gelu_backward_kernel = [](auto... arguments) { return kernels::gelu_backward(arguments...); };
constexpr auto tanh_backward_kernel = [](auto... arguments) { return kernels::tanh_backward(arguments...); };
constexpr auto sigmoid_backward_kernel = [](auto... arguments) { return kernels::sigmoid_backward(arguments...); };

struct ReluMaskNode final : Node {
  using Node::Node;
  SavedTensor y;
  std::string_view name() const override { return "relu_mask"; }
  std::vector<Tensor> differentiate(const Tensor& gradient) override { return {relu_mask(gradient, y.unpack(name()))}; }
  void release_saved() override { y.release(); }
};

struct ReluNode final : OutputNode {
  using OutputNode::OutputNode;
  std::string_view name() const override { return "relu"; }
  void backward(BackwardPass& pass) override {
    pass.give(*this, 0, map_gradient("relu", relu_backward_kernel, take_gradient(), output()));
  }
  std::vector<Tensor> differentiate(const Tensor& gradient) override { return {relu_mask(gradient, output())}; }
};

struct TanhNode final : OutputNode {
  using OutputNode::OutputNode;
  std::string_view name() const override { return "tanh"; }
  void backward(BackwardPass& pass) override {
    pass.give(*this, 0, map_gradient("tanh", tanh_backward_kernel, take_gradient(), output()));
  }
  std::vector<Tensor> differentiate(const Tensor& gradient) override {
    return {gradient * (1 - square(output_in_graph()))};
  }
};

struct SigmoidNode final : OutputNode {
  using OutputNode::OutputNode;
  std::string_view name() const override { return "sigmoid"; }
  void backward(BackwardPass& pass) override {
    pass.give(*this, 0, map_gradient("sigmoid", sigmoid_backward_kernel, take_gradient(), output()));
  }
  std::vector<Tensor> differentiate(const Tensor& gradient) override {
    const Tensor y = output_in_graph();
    return {gradient * (y * (1 - y))};
  }
};

struct GeluNode final : Node {
  using Node::Node;
  SavedTensor x;
  std::string_view name() const override { return "gelu"; }
  void backward(BackwardPass& pass) override {
    const Packed saved(x.unpack(name()));
    pass.give(*this, 0, map_gradient("gelu", gelu_backward_kernel, take_gradient(), *saved));
  }
  std::vector<Tensor> differentiate(const Tensor& gradient) override {
    return {gelu_gradient(gradient, x.unpack(name()))};
  }
  void release_saved() override { x.release(); }
};

// Inputs: 0 the gradient of gelu's output, 1 gelu's input.
struct GeluGradientNode final : Node {
  using Node::Node;
  SavedTensor dy, x;
  std::string_view name() const override { return "gelu_gradient"; }
  std::vector<Tensor> differentiate(const Tensor& gradient) override {
    const Tensor& at = x.unpack(name());
    // The second derivative of x Φ(x) is φ(x) (2 - x²).
    const auto curvature = [&] {
      const Tensor x_squared = square(at);
      return exp(x_squared * -0.5) * (2 - x_squared) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    };
    return {needs_gradient(0) ? gelu_gradient(gradient, at) : Tensor(),
            needs_gradient(1) ? gradient * dy.unpack(name()) * curvature() : Tensor()};
  }
  void release_saved() override {
    dy.release();
    x.release();
  }
};

Tensor gelu_gradient(const Tensor& gradient, const Tensor& x) {
  const Packed packed_gradient(gradient), packed_x(x);
  Tensor dx = empty_like(gradient);
  launch_elementwise("gelu_gradient", gelu_backward_kernel, dx, *packed_gradient, *packed_x);
  if (auto* node = record<GeluGradientNode>(dx, gradient, x)) {
    node->dy = SavedTensor(gradient);
    node->x = SavedTensor(x);
  }
  return dx;
}

Fold last_dimension(const Shape& shape) {
  return {shape.elements(0, shape.rank() - 1), shape[shape.rank() - 1], 1};
}

// sum of x over the last dimension, repeated over it.
Tensor row_sums(const Tensor& x) {
  return fold_repeat(sum(x, -1), last_dimension(x.shape()), x.shape(), 1);
}

struct SoftmaxNode final : OutputNode {
  using OutputNode::OutputNode;
  std::string_view name() const override { return "softmax"; }
  void backward(BackwardPass& pass) override {
    const auto kernel = [rows = last_dimension(output_shape())](cudaStream_t stream, auto* dx, auto* dy, auto* y,
                                                                std::int64_t) {
      return kernels::softmax_backward(stream, dx, dy, y, rows.outer, rows.length);
    };
    pass.give(*this, 0, map_gradient("softmax", kernel, take_gradient(), output()));
  }
  std::vector<Tensor> differentiate(const Tensor& gradient) override {
    const Tensor y = output_in_graph();
    return {y * (gradient - row_sums(gradient * y))};
  }
};

struct LogSoftmaxNode final : OutputNode {
  using OutputNode::OutputNode;
  std::string_view name() const override { return "log_softmax"; }
  void backward(BackwardPass& pass) override {
    const auto kernel = [rows = last_dimension(output_shape())](cudaStream_t stream, auto* dx, auto* dy, auto* y,
                                                                std::int64_t) {
      return kernels::log_softmax_backward(stream, dx, dy, y, rows.outer, rows.length);
    };
    pass.give(*this, 0, map_gradient("log_softmax", kernel, take_gradient(), output()));
  }
  std::vector<Tensor> differentiate(const Tensor& gradient) override {
    return {gradient - exp(output_in_graph()) * row_sums(gradient)};
  }
};

void require_dimension(const char* operation, const Tensor& x) {
  common_device(operation, x);
  if (x.rank() == 0) throw_operands(operation, {&x}, "at least one dimension is needed");
}

}  // namespace

Tensor relu(Tensor x) {
  common_device("relu", x);
  if (widens(x)) x = widened(x);
  const Packed packed(x);
  Tensor y = x.is_exclusive() ? x.detach() : empty_like(x);
  launch_elementwise("relu", relu_kernel, y, *packed);
  if (auto* node = record<ReluNode>(y, x)) node->save_output(y);
  return y;
}

Tensor gelu(const Tensor& x) {
  if (widens(x)) return gelu(widened(x));
  Tensor y = map_elements(
      "gelu", [](auto... arguments) { return kernels::gelu(arguments...); }, x);
  if (auto* node = record<GeluNode>(y, x)) node->x = SavedTensor(x);
  return y;
}

Tensor tanh(const Tensor& x) {
  if (widens(x)) return tanh(widened(x));
  Tensor y = map_elements(
      "tanh", [](auto... arguments) { return kernels::tanh(arguments...); }, x);
  if (auto* node = record<TanhNode>(y, x)) node->save_output(y);
  return y;
}

Tensor sigmoid(const Tensor& x) {
  if (widens(x)) return sigmoid(widened(x));
  Tensor y = map_elements(
      "sigmoid", [](auto... arguments) { return kernels::sigmoid(arguments...); }, x);
  if (auto* node = record<SigmoidNode>(y, x)) node->save_output(y);
  return y;
}

Tensor softmax(const Tensor& x) {
  if (widens(x)) return softmax(widened(x));
  require_dimension("softmax", x);
  const auto kernel = [rows = last_dimension(x.shape())](cudaStream_t stream, auto* y, auto* from, std::int64_t) {
    return kernels::softmax(stream, y, from, rows.outer, rows.length);
  };
  Tensor y = map_elements("softmax", kernel, x);
  if (auto* node = record<SoftmaxNode>(y, x)) node->save_output(y);
  return y;
}

Tensor log_softmax(const Tensor& x) {
  if (widens(x)) return log_softmax(widened(x));
  require_dimension("log_softmax", x);
  const auto kernel = [rows = last_dimension(x.shape())](cudaStream_t stream, auto* y, auto* from, std::int64_t) {
    return kernels::log_softmax(stream, y, from, rows.outer, rows.length);
  };
  Tensor y = map_elements("log_softmax", kernel, x);
  if (auto* node = record<LogSoftmaxNode>(y, x)) node->save_output(y);
  return y;
}

Tensor relu_mask(const Tensor& x, const Tensor& y) {
  if (widens(x, y)) return relu_mask(widened(x), widened(y));
  common_device("relu_mask", x, y);
  if (!(x.shape() == y.shape()) || x.dtype() != y.dtype()) {
    throw_operands("relu_mask", {&x, &y}, "shape and dtype must agree");
  }
  const Packed packed_x(x), packed_y(y);
  Tensor masked = empty_like(x);
  launch_elementwise("relu_mask", relu_backward_kernel, masked, *packed_x, *packed_y);
  if (auto* node = record<ReluMaskNode>(masked, x)) node->y = SavedTensor(y.detach());
  return masked;
}

}  // namespace fanout
