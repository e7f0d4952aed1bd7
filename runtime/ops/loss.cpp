// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss.h"

#include "kernels/arithmetic.h"
#include "kernels/cross_entropy.h"
#include "kernels/mse.h"
#include "runtime/autograd/backward.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/ops/elementwise.h"

namespace fanout {
namespace {

struct CrossEntropyNode final : Node {
  using Node::Node;
  SavedTensor dlogits;  // for the upstream gradient 1

  std::string_view name() const override { return "cross_entropy"; }
  bool implies_one() const override { return true; }

  void backward(BackwardPass& pass) override {
    const Tensor& unit = dlogits.unpack(name());
    const Tensor upstream = take_gradient();
    if (!upstream.defined()) {
      pass.give(*this, 0, unit);
      return;
    }
    Tensor scaled = empty_like(unit);
    launch_elementwise(
        "cross_entropy",
        [&]<class T>(cudaStream_t stream, T* y, const T* x, std::int64_t n) {
          return kernels::scale_by(stream, y, x, static_cast<const T*>(upstream.data<T>()), T(1), n);
        },
        scaled, unit);
    pass.give(*this, 0, std::move(scaled));
  }

  void release_saved() override { dlogits.release(); }
};

struct MseNode final : Node {
  using Node::Node;
  SavedTensor x, target;

  std::string_view name() const override { return "mse_loss"; }

  void backward(BackwardPass& pass) override {
    const Tensor upstream = take_gradient();
    const Packed packed_x(x.unpack(name())), packed_target(target.unpack(name()));
    const auto give = [&](std::size_t input, const Tensor& to, const Tensor& away) {
      if (!needs_gradient(input)) return;
      Tensor gradient = empty_like(to);
      launch_elementwise(
          "mse_loss",
          [&]<class T>(cudaStream_t stream, T* y, const T* a, const T* b, std::int64_t n) {
            return kernels::mean_squared_error_backward(stream, y, a, b, static_cast<const T*>(upstream.data<T>()), n);
          },
          gradient, to, away);
      pass.give(*this, input, std::move(gradient));
    };
    give(0, *packed_x, *packed_target);
    give(1, *packed_target, *packed_x);
  }

  std::vector<Tensor> differentiate(const Tensor& gradient) override {
    const Tensor& from = target.unpack(name());
    const Tensor difference = x.unpack(name()) - from;
    const Tensor dx = difference * (gradient * (2 / static_cast<double>(from.elements())));
    return {dx, needs_gradient(1) ? -dx : Tensor()};
  }

  void release_saved() override {
    x.release();
    target.release();
  }
};

// Torch gives NaN, and with it every weight becomes NaN.
[[noreturn]] void throw_nothing(std::string_view operation, const Tensor& x) {
  throw_operands(operation, {&x}, "there is nothing to take a mean of: skip the step");
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& labels) {
  if (widens(logits)) return cross_entropy(widened(logits), labels);
  const Device device = common_device("cross_entropy", logits, labels);
  if (logits.rank() != 2 || labels.rank() != 1 || labels.shape()[0] != logits.shape()[0] ||
      labels.dtype() != DType::i64) {
    throw_operands("cross_entropy", {&logits, &labels}, "they must be logits [n, c] and i64 labels [n]");
  }
  if (logits.shape()[0] == 0) throw_nothing("cross_entropy", logits);
  const Packed packed_logits(logits), packed_labels(labels);
  const std::int64_t rows = logits.shape()[0], cols = logits.shape()[1];
  Tensor loss = empty({}, logits.dtype(), device);
  const Tensor row_losses = empty({rows}, logits.dtype(), device);
  const Tensor dlogits = any_tracked(logits) ? empty_like(logits) : Tensor();
  dispatch_floating(logits.dtype(), "cross_entropy", [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    const DeviceGuard guard(device);
    FANOUT_CHECK(kernels::cross_entropy(compute_stream(device).handle, loss.data<T>(), row_losses.data<T>(),
                                        dlogits.defined() ? dlogits.data<T>() : nullptr,
                                        static_cast<const T*>(packed_logits->data<T>()),
                                        static_cast<const std::int64_t*>(packed_labels->data<std::int64_t>()),
                                        T(1) / static_cast<T>(rows), rows, cols));
  });
  if (auto* node = record<CrossEntropyNode>(loss, logits)) node->dlogits = SavedTensor(dlogits);
  return loss;
}

Tensor mse_loss(const Tensor& x, const Tensor& target) {
  if (widens(x, target)) return mse_loss(widened(x), widened(target));
  const Device device = common_device("mse_loss", x, target);
  if (!(x.shape() == target.shape()) || x.dtype() != target.dtype()) {
    throw_operands("mse_loss", {&x, &target}, "shape and dtype must agree");
  }
  if (x.elements() == 0) throw_nothing("mse_loss", x);
  const Packed packed_x(x), packed_target(target);
  Tensor loss = empty({}, x.dtype(), device);
  const std::int64_t elements = kernels::mean_squared_error_workspace_elements(x.elements());
  const Tensor workspace = elements > 0 ? empty({elements}, x.dtype(), device) : Tensor();
  dispatch_floating(x.dtype(), "mse_loss", [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    const DeviceGuard guard(device);
    FANOUT_CHECK(kernels::mean_squared_error(
        compute_stream(device).handle, loss.data<T>(), workspace.defined() ? workspace.data<T>() : nullptr,
        static_cast<const T*>(packed_x->data<T>()), static_cast<const T*>(packed_target->data<T>()), x.elements()));
  });
  if (auto* node = record<MseNode>(loss, x, target)) {
    node->x = SavedTensor(x);
    node->target = SavedTensor(target);
  }
  return loss;
}

}  // namespace fanout
