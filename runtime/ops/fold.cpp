// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/fold.h"

#include "kernels/arithmetic.h"
#include "kernels/reduce.h"
#include "runtime/autograd/backward.h"
#include "runtime/device/context.h"
#include "runtime/ops/operands.h"

namespace fanout {
namespace {

struct FoldNode : Node {
  using Node::Node;
  Fold fold;
  Shape input_shape;
  double scale = 1;
};

struct SumNode final : FoldNode {
  using FoldNode::FoldNode;
  std::string_view name() const override { return "sum"; }
  std::vector<Tensor> differentiate(const Tensor& gradient) override {
    return {fold_repeat(gradient, fold, input_shape, scale)};
  }
};

struct RepeatNode final : FoldNode {
  using FoldNode::FoldNode;
  std::string_view name() const override { return "expand"; }
  void backward(BackwardPass& pass) override {
    const Tensor gradient = take_gradient();
    fold_sum_into(pass.destination(*this, 0), *Packed(gradient), fold, scale);
    pass.arrived(*this, 0);
  }
  std::vector<Tensor> differentiate(const Tensor& gradient) override {
    return {fold_sum(gradient, fold, input_shape, scale)};
  }
};

template <class NodeType>
void record_fold(const Tensor& result, const Tensor& x, Fold fold, double scale) {
  if (auto* node = record<NodeType>(result, x)) {
    node->fold = fold;
    node->input_shape = x.shape();
    node->scale = scale;
  }
}

}  // namespace

void fold_sum_into(const Destination& to, const Tensor& x, Fold fold, double scale) {
  if (x.dtype() == DType::bf16 && to.place.dtype() == DType::f32) {
    return fold_sum_into(to, convert(x, DType::f32), fold, scale);
  }
  dispatch_floating(x.dtype(), "sum", [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    const std::int64_t elements = kernels::sum_workspace_elements(fold.outer, fold.length, fold.inner);
    const Tensor workspace = elements > 0 ? empty({elements}, x.dtype(), x.device()) : Tensor();
    const DeviceGuard guard(x.device());
    FANOUT_CHECK(kernels::sum_along(compute_stream(x.device()).handle, to.place.data<T>(),
                                    static_cast<const T*>(x.data<T>()),
                                    workspace.defined() ? workspace.data<T>() : nullptr, static_cast<T>(scale),
                                    to.accumulate, fold.outer, fold.length, fold.inner));
  });
}

Tensor fold_sum(const Tensor& x, Fold fold, const Shape& result, double scale) {
  common_device("sum", x);
  if (widens(x)) return fold_sum(widened(x), fold, result, scale);
  const Packed packed(x);
  Tensor y = empty(result, x.dtype(), x.device());
  fold_sum_into({y, false}, *packed, fold, scale);
  record_fold<SumNode>(y, x, fold, scale);
  return y;
}

Tensor fold_repeat(const Tensor& x, Fold fold, const Shape& result, double scale) {
  const Device device = common_device("expand", x);
  if (widens(x)) return fold_repeat(widened(x), fold, result, scale);
  const Packed packed(x);
  Tensor y = empty(result, x.dtype(), device);
  dispatch_floating(x.dtype(), "expand", [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    const DeviceGuard guard(device);
    const cudaStream_t stream = compute_stream(device).handle;
    const T* from = packed->data<T>();
    if (fold.outer == 1 && fold.inner == 1) {
      FANOUT_CHECK(kernels::expand_scalar(stream, y.data<T>(), from, static_cast<T>(scale), fold.length));
    } else {
      FANOUT_CHECK(
          kernels::expand_along(stream, y.data<T>(), from, static_cast<T>(scale), fold.outer, fold.length, fold.inner));
    }
  });
  record_fold<RepeatNode>(y, x, fold, scale);
  return y;
}

}  // namespace fanout
