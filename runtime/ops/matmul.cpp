// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/matmul.h"

#include <type_traits>

#include "kernels/activation.h"
#include "kernels/bias.h"
#include "kernels/bias_backward.h"
#include "runtime/autograd/backward.h"
#include "runtime/autograd/node.h"
#include "runtime/device/blas.h"
#include "runtime/device/context.h"
#include "runtime/ops/activation.h"
#include "runtime/ops/convert.h"
#include "runtime/ops/fold.h"
#include "runtime/ops/operands.h"
#include "runtime/ops/reduce.h"
#include "runtime/ops/shape.h"

namespace fanout {
namespace {

constexpr Op flipped(Op op) {
  return op == Op::none ? Op::transpose : Op::none;
}

// A matrix as gemm takes it: memory without gaps, and whether that holds the transpose.
struct Factor {
  Tensor memory;
  Op op;
};

Factor factor(const Tensor& matrix) {
  const bool holds_transpose =
      !matrix.is_contiguous() && matrix.strides()[0] == 1 && matrix.strides()[1] == matrix.shape()[0];
  if (holds_transpose) return {matrix, Op::transpose};
  return {contiguous_copy(matrix), Op::none};
}

// to [m, n] = a b, or += that; all without gaps and of type T, but a product of bf16 may go to f32.
template <class T>
void multiply_into(const Destination& to, Op op_a, const Tensor& a, Op op_b, const Tensor& b, std::int64_t m,
                   std::int64_t n, std::int64_t k) {
  const auto multiply = [&](auto* place) {
    const T *left = a.data<T>(), *right = b.data<T>();
    gemm(to.place.device(), op_a, op_b, m, n, k, 1, left, right, to.accumulate ? 1 : 0, place);
  };
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    if (to.place.dtype() == DType::f32) return multiply(to.place.data<float>());
  }
  multiply(to.place.data<T>());
}

// Under Autocast a product saves its bf16 operands, but its edges lead to the f32 ones: backward writes their gradients
// in f32 where they belong, unrounded. What it saves has a place in the graph, as the conversion of the operand, so
// second derivatives find their way; they are formed in f32.
struct MatmulNode final : Node {
  using Node::Node;
  SavedTensor a, b;
  DType a_type = DType::f32, b_type = DType::f32;

  std::string_view name() const override { return "matmul"; }

  void backward(BackwardPass& pass) override {
    const Tensor gradient = take_gradient();
    const Packed g(gradient);
    const std::int64_t m = g->shape()[0], n = g->shape()[1];
    dispatch_any_floating(g->dtype(), "matmul", [&]<class Tag>(Tag) {
      using T = typename Tag::type;
      if (needs_gradient(0)) {
        const Factor right = factor(b.unpack(name()));
        multiply_into<T>(pass.destination(*this, 0), Op::none, *g, flipped(right.op), right.memory, m,
                         b.unpack(name()).shape()[0], n);
        pass.arrived(*this, 0);
      }
      if (needs_gradient(1)) {
        const Factor left = factor(a.unpack(name()));
        multiply_into<T>(pass.destination(*this, 1), flipped(left.op), left.memory, Op::none, *g,
                         a.unpack(name()).shape()[1], n, m);
        pass.arrived(*this, 1);
      }
    });
  }

  std::vector<Tensor> differentiate(const Tensor& gradient) override {
    const Tensor g = widened(gradient);
    return {needs_gradient(0) ? convert(matmul(g, transpose(widened(b.unpack(name())))), a_type) : Tensor(),
            needs_gradient(1) ? convert(matmul(transpose(widened(a.unpack(name()))), g), b_type) : Tensor()};
  }

  void release_saved() override {
    a.release();
    b.release();
  }
};

// Inputs: 0 x [..., in], 1 weight [out, in], 2 bias [out], f32 beside bf16.
struct LinearNode : Node {
  using Node::Node;
  SavedTensor x, weight;
  DType x_type = DType::f32, weight_type = DType::f32;

  std::string_view name() const override { return "linear"; }

  void save(const Tensor& x_operand, const Tensor& weight_operand) {
    if (needs_gradient(1)) x = SavedTensor(x_operand);
    if (needs_gradient(0)) weight = SavedTensor(weight_operand);
  }

  void backward(BackwardPass& pass) override {
    const Tensor gradient = take_gradient();
    const Packed dz(gradient);
    if (needs_gradient(2)) {
      const std::int64_t out = dz->shape()[dz->rank() - 1];
      fold_sum_into(pass.destination(*this, 2), *dz, {1, dz->shape().elements(0, dz->rank() - 1), out}, 1);
      pass.arrived(*this, 2);
    }
    give_products(pass, *dz);
  }

  std::vector<Tensor> differentiate(const Tensor& gradient) override { return differentiate_sum(gradient); }

  void release_saved() override {
    x.release();
    weight.release();
  }

 protected:
  // dW = dz^T x and dx = dz W, written where they belong.
  //   dz [..., out], the gradient of x weight^T + bias; contiguous
  void give_products(BackwardPass& pass, const Tensor& dz) {
    const std::int64_t rows = dz.shape().elements(0, dz.rank() - 1), out = dz.shape()[dz.rank() - 1];
    dispatch_any_floating(dz.dtype(), "linear", [&]<class Tag>(Tag) {
      using T = typename Tag::type;
      if (needs_gradient(1)) {
        const Packed saved(x.unpack(name()));
        multiply_into<T>(pass.destination(*this, 1), Op::transpose, dz, Op::none, *saved, out, saved->size(-1), rows);
        pass.arrived(*this, 1);
      }
      if (needs_gradient(0)) {
        const Packed saved(weight.unpack(name()));
        multiply_into<T>(pass.destination(*this, 0), Op::none, dz, Op::none, *saved, rows, saved->size(1), out);
        pass.arrived(*this, 0);
      }
    });
  }

  std::vector<Tensor> differentiate_sum(const Tensor& dz) {
    const std::int64_t rows = dz.shape().elements(0, dz.rank() - 1), out = dz.shape()[dz.rank() - 1];
    const Tensor flat = reshape(widened(dz), {rows, out});
    std::vector<Tensor> gradients(3);
    if (needs_gradient(0)) {
      const Tensor matrix = widened(weight.unpack(name()));
      const Tensor dx = reshape(matmul(flat, matrix), dz.shape().with(dz.rank() - 1, matrix.size(1)));
      gradients[0] = convert(dx, x_type);
    }
    if (needs_gradient(1)) {
      const Tensor operand = widened(x.unpack(name()));
      gradients[1] = convert(matmul(transpose(flat), reshape(operand, {rows, operand.size(-1)})), weight_type);
    }
    if (needs_gradient(2)) gradients[2] = sum(flat, 0);
    return gradients;
  }
};

struct LinearReluNode final : LinearNode {
  using LinearNode::LinearNode;
  SavedTensor y;

  std::string_view name() const override { return "linear_relu"; }

  void backward(BackwardPass& pass) override {
    Tensor gradient = take_gradient();
    const bool in_place = gradient.is_exclusive();
    const Packed dy(gradient);
    const Tensor dz = in_place ? gradient : empty_like(gradient);
    if (needs_gradient(2)) {
      mask_and_sum(dz, *dy, pass.destination(*this, 2));
      pass.arrived(*this, 2);
    } else {
      mask_and_sum(dz, *dy, {});
    }
    give_products(pass, dz);
  }

  std::vector<Tensor> differentiate(const Tensor& gradient) override {
    return differentiate_sum(relu_mask(widened(gradient), widened(y.unpack(name()))));
  }

  void release_saved() override {
    LinearNode::release_saved();
    y.release();
  }

 private:
  // dz = dy where y > 0, and its column sums to where the bias gradient belongs, if anywhere.
  void mask_and_sum(const Tensor& dz, const Tensor& dy, const Destination& bias) {
    const Tensor& output = y.unpack(name());
    dispatch_any_floating(dy.dtype(), "linear_relu", [&]<class Tag>(Tag) {
      using T = typename Tag::type;
      auto* dbias = bias.place.defined() ? bias.place.data<kernels::Wide<T>>() : nullptr;
      FANOUT_CHECK(kernels::bias_relu_backward(compute_stream(dy.device()).handle, dz.data<T>(), dbias,
                                               static_cast<const T*>(dy.data<T>()),
                                               static_cast<const T*>(output.data<T>()), bias.accumulate,
                                               dy.shape().elements(0, dy.rank() - 1), dy.shape()[dy.rank() - 1]));
    });
  }
};

enum class Activation : bool { none, relu };

// y = activation(sums + bias). The sums are y itself, or f32 beside a bf16 y with a bias: so that is rounded once.
template <class T>
void finish_rows(const Tensor& y, const Tensor& sums, const Tensor& bias, Activation activation, std::int64_t rows,
                 std::int64_t cols) {
  const cudaStream_t stream = compute_stream(y.device()).handle;
  T* to = y.data<T>();
  if (bias.defined()) {
    using Wide = kernels::Wide<T>;
    const Packed packed(bias);
    const Wide *from = sums.data<Wide>(), *row = packed->data<Wide>();
    FANOUT_CHECK(activation == Activation::relu ? kernels::bias_relu(stream, to, from, row, rows, cols)
                                                : kernels::bias_add(stream, to, from, row, rows, cols));
  } else if (activation == Activation::relu) {
    FANOUT_CHECK(kernels::relu(stream, to, static_cast<const T*>(to), rows * cols));
  }
}

void check_linear(const char* operation, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const bool has_bias = bias.defined();
  if (has_bias) {
    common_device(operation, x, weight, bias);
  } else {
    common_device(operation, x, weight);
  }
  const bool one_type =
      (x.dtype() == weight.dtype() && (!has_bias || bias.dtype() == x.dtype())) || narrows(x, weight, bias);
  const bool fits = x.rank() >= 1 && weight.rank() == 2 && x.shape()[x.rank() - 1] == weight.shape()[1];
  const bool bias_fits = !has_bias || (bias.rank() == 1 && bias.shape()[0] == weight.shape()[0]);
  if (one_type && fits && bias_fits) [[likely]]
    return;
  constexpr auto kRule = "they must be x [..., in], weight [out, in] and bias [out] of one dtype";
  if (has_bias) throw_operands(operation, {&x, &weight, &bias}, kRule);
  throw_operands(operation, {&x, &weight}, kRule);
}

// x and weight of one type; bias of that type, but f32 beside bf16.
Tensor linear_rows(const char* operation, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   Activation activation) {
  const std::int64_t rows = x.shape().elements(0, x.rank() - 1), in = weight.shape()[1], out = weight.shape()[0];
  const Packed packed_x(x), packed_weight(weight);
  Tensor y = empty(x.shape().with(x.rank() - 1, out), x.dtype(), x.device());
  const Tensor sums = x.dtype() == DType::bf16 && bias.defined() ? empty(y.shape(), DType::f32, y.device()) : y;
  const DeviceGuard guard(x.device());
  dispatch_any_floating(x.dtype(), operation, [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    multiply_into<T>({sums, false}, Op::none, *packed_x, Op::transpose, *packed_weight, rows, out, in);
    finish_rows<T>(y, sums, bias, activation, rows, out);
  });
  return y;
}

template <class NodeType>
Tensor linear_with(const char* operation, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   Activation activation) {
  check_linear(operation, x, weight, bias);
  const bool narrow = narrows(x, weight, bias);
  const Tensor x_factor = narrow ? narrowed(x) : x, weight_factor = narrow ? narrowed(weight) : weight;
  const Tensor shift = widened(bias);
  Tensor y = linear_rows(operation, x_factor, weight_factor, shift, activation);
  if (auto* node = record<NodeType>(y, x, weight, shift)) {
    node->save(x_factor, weight_factor);
    node->x_type = x.dtype();
    node->weight_type = weight.dtype();
    if constexpr (std::is_same_v<NodeType, LinearReluNode>) node->y = SavedTensor::output(y);
  }
  return y;
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  const Device device = common_device("matmul", a, b);
  const bool narrow = narrows(a, b);
  if (a.rank() != 2 || b.rank() != 2 || a.shape()[1] != b.shape()[0] || (a.dtype() != b.dtype() && !narrow)) {
    throw_operands("matmul", {&a, &b}, "they must be [m, k] and [k, n] of one dtype");
  }
  const std::int64_t m = a.shape()[0], n = b.shape()[1], k = a.shape()[1];
  const Tensor a_factor = narrow ? narrowed(a) : a, b_factor = narrow ? narrowed(b) : b;
  const Factor left = factor(a_factor), right = factor(b_factor);
  Tensor y = empty({m, n}, a_factor.dtype(), device);
  dispatch_any_floating(y.dtype(), "matmul", [&]<class Tag>(Tag) {
    const DeviceGuard guard(device);
    multiply_into<typename Tag::type>({y, false}, left.op, left.memory, right.op, right.memory, m, n, k);
  });
  if (auto* node = record<MatmulNode>(y, a, b)) {
    if (node->needs_gradient(1)) node->a = SavedTensor(a_factor);
    if (node->needs_gradient(0)) node->b = SavedTensor(b_factor);
    node->a_type = a.dtype();
    node->b_type = b.dtype();
  }
  return y;
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return linear_with<LinearNode>("linear", x, weight, bias, Activation::none);
}

Tensor linear_relu(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return linear_with<LinearReluNode>("linear_relu", x, weight, bias, Activation::relu);
}

}  // namespace fanout
