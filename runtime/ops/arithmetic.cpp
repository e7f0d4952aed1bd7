// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/arithmetic.h"

#include <type_traits>

#include "kernels/arithmetic.h"
#include "runtime/ops/elementwise.h"
#include "runtime/ops/shape.h"

namespace fanout {
namespace {

struct SubtractNode final : Node {
  using Node::Node;
  std::string_view name() const override { return "subtract"; }
  std::vector<Tensor> differentiate(const Tensor& gradient) override {
    return {gradient, needs_gradient(1) ? -gradient : Tensor()};
  }
};

struct MultiplyNode final : Node {
  using Node::Node;
  SavedTensor a, b;
  std::string_view name() const override { return "multiply"; }
  std::vector<Tensor> differentiate(const Tensor& gradient) override {
    return {needs_gradient(0) ? gradient * b.unpack(name()) : Tensor(),
            needs_gradient(1) ? gradient * a.unpack(name()) : Tensor()};
  }
  void release_saved() override {
    a.release();
    b.release();
  }
};

struct DivideNode final : Node {
  using Node::Node;
  SavedTensor a, b;
  std::string_view name() const override { return "divide"; }
  std::vector<Tensor> differentiate(const Tensor& gradient) override {
    const Tensor by_a = gradient / b.unpack(name());
    return {by_a, needs_gradient(1) ? -(by_a * a.unpack(name()) / b.unpack(name())) : Tensor()};
  }
  void release_saved() override {
    a.release();
    b.release();
  }
};

struct ScaleNode final : Node {
  using Node::Node;
  double factor = 1;
  std::string_view name() const override { return "scale"; }
  std::vector<Tensor> differentiate(const Tensor& gradient) override { return {gradient * factor}; }
};

struct AddScalarNode final : Node {
  using Node::Node;
  std::string_view name() const override { return "add_scalar"; }
  std::vector<Tensor> differentiate(const Tensor& gradient) override { return {gradient}; }
};

struct ExpNode final : OutputNode {
  using OutputNode::OutputNode;
  std::string_view name() const override { return "exp"; }
  std::vector<Tensor> differentiate(const Tensor& gradient) override { return {gradient * output_in_graph()}; }
};

struct SqrtNode final : OutputNode {
  using OutputNode::OutputNode;
  std::string_view name() const override { return "sqrt"; }
  std::vector<Tensor> differentiate(const Tensor& gradient) override { return {gradient * 0.5 / output_in_graph()}; }
};

struct OperandNode : Node {
  using Node::Node;
  SavedTensor x;
  void release_saved() override { x.release(); }
};

struct LogNode final : OperandNode {
  using OperandNode::OperandNode;
  std::string_view name() const override { return "log"; }
  std::vector<Tensor> differentiate(const Tensor& gradient) override { return {gradient / x.unpack(name())}; }
};

struct SquareNode final : OperandNode {
  using OperandNode::OperandNode;
  std::string_view name() const override { return "square"; }
  std::vector<Tensor> differentiate(const Tensor& gradient) override { return {gradient * x.unpack(name()) * 2}; }
};

// b in a's shape.
Tensor matched(const char* operation, const Tensor& a, const Tensor& b) {
  common_device(operation, a, b);
  if (a.dtype() != b.dtype()) throw_operands(operation, {&a, &b}, "the dtypes must agree");
  if (a.shape() == b.shape()) return b;
  const int leading = a.rank() - b.rank();
  bool fits = leading >= 0;
  for (int dim = 0; fits && dim < b.rank(); ++dim) fits = b.shape()[dim] == a.shape()[leading + dim];
  if (!fits && b.elements() != 1) {
    throw_operands(operation, {&a, &b},
                   "the right one must have the left one's shape, or its last dimensions, or one element");
  }
  return expand(b, a.shape());
}

template <class Kernel>
Tensor combine(const char* operation, Kernel kernel, const Tensor& a, const Tensor& b) {
  const Packed packed_a(a), packed_b(b);
  Tensor y = empty_like(a);
  launch_elementwise(operation, kernel, y, *packed_a, *packed_b);
  return y;
}

// A node that saved a and b where the other one's gradient needs them.
template <class NodeType>
void record_product(const Tensor& y, const Tensor& a, const Tensor& b, bool always_b) {
  if (auto* node = record<NodeType>(y, a, b)) {
    if (node->needs_gradient(1)) node->a = SavedTensor(a);
    if (node->needs_gradient(0) || always_b) node->b = SavedTensor(b);
  }
}

template <class NodeType, class Kernel>
Tensor with_saved_output(const char* operation, Kernel kernel, const Tensor& x) {
  if (widens(x)) return with_saved_output<NodeType>(operation, kernel, widened(x));
  Tensor y = map_elements(operation, kernel, x);
  if (auto* node = record<NodeType>(y, x)) node->save_output(y);
  return y;
}

template <class NodeType, class Kernel>
Tensor with_saved_operand(const char* operation, Kernel kernel, const Tensor& x) {
  if (widens(x)) return with_saved_operand<NodeType>(operation, kernel, widened(x));
  Tensor y = map_elements(operation, kernel, x);
  if (auto* node = record<NodeType>(y, x)) node->x = SavedTensor(x);
  return y;
}

}  // namespace

Tensor operator+(const Tensor& a, const Tensor& b) {
  if (widens(a, b)) return widened(a) + widened(b);
  return add(a, matched("add", a, b));
}

Tensor operator-(const Tensor& a, const Tensor& b) {
  if (widens(a, b)) return widened(a) - widened(b);
  const Tensor right = matched("subtract", a, b);
  Tensor y = combine(
      "subtract", [](auto... arguments) { return kernels::subtract(arguments...); }, a, right);
  record<SubtractNode>(y, a, right);
  return y;
}

Tensor operator*(const Tensor& a, const Tensor& b) {
  if (widens(a, b)) return widened(a) * widened(b);
  const Tensor right = matched("multiply", a, b);
  Tensor y = combine(
      "multiply", [](auto... arguments) { return kernels::multiply(arguments...); }, a, right);
  record_product<MultiplyNode>(y, a, right, false);
  return y;
}

Tensor operator/(const Tensor& a, const Tensor& b) {
  if (widens(a, b)) return widened(a) / widened(b);
  const Tensor right = matched("divide", a, b);
  Tensor y = combine(
      "divide", [](auto... arguments) { return kernels::divide(arguments...); }, a, right);
  record_product<DivideNode>(y, a, right, true);
  return y;
}

Tensor operator+(const Tensor& x, double value) {
  if (widens(x)) return widened(x) + value;
  Tensor y = map_elements(
      "add_scalar",
      [value]<class T>(cudaStream_t stream, T* to, const T* from, std::int64_t n) {
        return kernels::add_scalar(stream, to, from, static_cast<T>(value), n);
      },
      x);
  record<AddScalarNode>(y, x);
  return y;
}

Tensor operator*(const Tensor& x, double value) {
  if (widens(x)) return widened(x) * value;
  Tensor y = map_elements(
      "scale",
      [value]<class T>(cudaStream_t stream, T* to, const T* from, std::int64_t n) {
        return kernels::scale(stream, to, from, static_cast<T>(value), n);
      },
      x);
  if (auto* node = record<ScaleNode>(y, x)) node->factor = value;
  return y;
}

Tensor operator-(const Tensor& x, double value) {
  return x + -value;
}
Tensor operator/(const Tensor& x, double value) {
  return x * (1 / value);
}
Tensor operator+(double value, const Tensor& x) {
  return x + value;
}
Tensor operator-(double value, const Tensor& x) {
  return -x + value;
}
Tensor operator*(double value, const Tensor& x) {
  return x * value;
}
Tensor operator/(double value, const Tensor& x) {
  if (widens(x)) return value / widened(x);
  const Device device = common_device("divide", x);
  return full(x.shape(), value, x.dtype(), device) / x;
}
Tensor operator-(const Tensor& x) {
  return x * -1;
}

Tensor exp(const Tensor& x) {
  return with_saved_output<ExpNode>(
      "exp", [](auto... arguments) { return kernels::exp(arguments...); }, x);
}

Tensor log(const Tensor& x) {
  return with_saved_operand<LogNode>(
      "log", [](auto... arguments) { return kernels::log(arguments...); }, x);
}

Tensor sqrt(const Tensor& x) {
  return with_saved_output<SqrtNode>(
      "sqrt", [](auto... arguments) { return kernels::sqrt(arguments...); }, x);
}

Tensor square(const Tensor& x) {
  return with_saved_operand<SquareNode>(
      "square",
      [](cudaStream_t stream, auto* y, auto* from, std::int64_t n) {
        return kernels::multiply(stream, y, from, from, n);
      },
      x);
}

}  // namespace fanout
