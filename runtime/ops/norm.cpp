// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/norm.h"

#include <fmt/format.h>

#include "kernels/batch_norm.h"
#include "kernels/layer_norm.h"
#include "runtime/autograd/backward.h"
#include "runtime/autograd/node.h"
#include "runtime/device/context.h"
#include "runtime/ops/operands.h"

namespace fanout {
namespace {

template <class T>
T* pointer_or_null(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<T>() : nullptr;
}

// Where the kernels write the gradients of gamma and beta: they take one flag for both.
struct ParameterGradients {
  Destination gamma, beta;
  bool accumulate = false;

  ParameterGradients(BackwardPass& pass, Node& node) {
    const Edge &gamma_edge = node.inputs()[1], &beta_edge = node.inputs()[2];
    shared_ = node.needs_gradient(1) && gamma_edge.node == beta_edge.node && gamma_edge.slot == beta_edge.slot;
    if (node.needs_gradient(1)) gamma = pass.destination(node, 1);
    if (node.needs_gradient(2) && !shared_) beta = pass.destination(node, 2);
    if (shared_) beta = {empty_like(gamma.place), false};
    accumulate = gamma.accumulate || beta.accumulate;
    if (accumulate && gamma.place.defined() && !gamma.accumulate) set_zero(gamma.place);
    if (accumulate && beta.place.defined() && !beta.accumulate) set_zero(beta.place);
  }

  void arrived(BackwardPass& pass, Node& node) {
    if (node.needs_gradient(1)) pass.arrived(node, 1);
    if (shared_) {
      pass.give(node, 2, std::move(beta.place));
    } else if (node.needs_gradient(2)) {
      pass.arrived(node, 2);
    }
  }

 private:
  bool shared_ = false;  // one tensor is both: two writes to one place at once would race
};

// Inputs: 0 x, 1 gamma, 2 beta. What the derived nodes differ in is the kernel.
struct NormNode : Node {
  using Node::Node;
  SavedTensor x, gamma, mean, spread;  // spread: 1 / deviation, or the running variance
  double eps = 0;

  void save(const Tensor& x_operand, const Tensor& gamma_operand, const Tensor& used_mean, const Tensor& used_spread,
            double used_eps) {
    x = SavedTensor(x_operand);
    if (gamma_operand.defined()) gamma = SavedTensor(gamma_operand);
    mean = SavedTensor(used_mean);
    spread = SavedTensor(used_spread);
    eps = used_eps;
  }

  // Calls launch(stream, dx, dgamma, dbeta, dy, x, mean, spread, gamma, accumulate, rows, cols).
  template <class Launch>
  void run(BackwardPass& pass, const Launch& launch) {
    const Tensor gradient = take_gradient();
    const Tensor weights = gamma.defined() ? contiguous_copy(gamma.unpack(name())) : Tensor();
    const Packed dy(gradient), packed_x(x.unpack(name()));
    const Packed packed_mean(mean.unpack(name())), packed_spread(spread.unpack(name()));
    Tensor dx = empty_like(gradient);
    const int last = dx.rank() - 1;
    ParameterGradients parameters(pass, *this);
    dispatch_floating(dx.dtype(), name(), [&]<class Tag>(Tag) {
      using T = typename Tag::type;
      FANOUT_CHECK(launch(compute_stream(dx.device()).handle, dx.data<T>(), pointer_or_null<T>(parameters.gamma.place),
                          pointer_or_null<T>(parameters.beta.place), static_cast<const T*>(dy->data<T>()),
                          static_cast<const T*>(packed_x->data<T>()), static_cast<const T*>(packed_mean->data<T>()),
                          static_cast<const T*>(packed_spread->data<T>()),
                          static_cast<const T*>(pointer_or_null<T>(weights)), parameters.accumulate,
                          dx.shape().elements(0, last), dx.shape()[last]));
    });
    parameters.arrived(pass, *this);
    pass.give(*this, 0, std::move(dx));
  }

  void release_saved() override {
    for (SavedTensor* saved : {&x, &gamma, &mean, &spread}) saved->release();
  }
};

struct LayerNormNode final : NormNode {
  using NormNode::NormNode;
  std::string_view name() const override { return "layer_norm"; }
  void backward(BackwardPass& pass) override {
    run(pass, [](auto... arguments) { return kernels::layer_norm_backward(arguments...); });
  }
};

struct BatchNormNode final : NormNode {
  using NormNode::NormNode;
  std::string_view name() const override { return "batch_norm"; }
  void backward(BackwardPass& pass) override {
    run(pass, [](auto... arguments) { return kernels::batch_norm_backward(arguments...); });
  }
};

struct FixedBatchNormNode final : NormNode {
  using NormNode::NormNode;
  std::string_view name() const override { return "batch_norm"; }
  void backward(BackwardPass& pass) override {
    run(pass,
        [this]<class T>(cudaStream_t stream, T* dx, T* dgamma, T* dbeta, const T* dy, const T* at, const T* used_mean,
                        const T* variance, const T* weights, bool accumulate, std::int64_t rows, std::int64_t cols) {
          return kernels::batch_norm_evaluation_backward(stream, dx, dgamma, dbeta, dy, at, used_mean, variance,
                                                         weights, static_cast<T>(eps), accumulate, rows, cols);
        });
  }
};

// A vector of x's last size, or undefined.
void require_vector(const char* operation, const char* what, const Tensor& x, const Tensor& vector) {
  if (!vector.defined()) return;
  common_device(operation, x, vector);
  if (vector.rank() == 1 && vector.shape()[0] == x.shape()[x.rank() - 1] && vector.dtype() == x.dtype()) return;
  throw_operands(operation, {&x, &vector},
                 fmt::format("{} must have one element for each column of x, and its dtype", what));
}

Tensor packed_or_none(const Tensor& tensor) {
  return tensor.defined() ? contiguous_copy(tensor) : Tensor();
}

void check_batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, bool training) {
  common_device("batch_norm", x);
  if (x.rank() != 2) throw_operands("batch_norm", {&x}, "x must be [n, c]");
  require_vector("batch_norm", "running_mean", x, running_mean);
  require_vector("batch_norm", "running_var", x, running_var);
  if (running_mean.defined() != running_var.defined()) {
    throw InvalidArgument("batch_norm: running_mean and running_var must be both given or both left out");
  }
  if (!training && !running_mean.defined()) {
    throw InvalidArgument("batch_norm: running_mean and running_var are needed when not training");
  }
  if (training && x.shape()[0] == 1) {
    throw_operands("batch_norm", {&x}, "Expected more than 1 value per channel when training: one row has no variance");
  }
  const bool updated_in_place = training && running_mean.defined();
  if (updated_in_place && !(running_mean.is_contiguous() && running_var.is_contiguous())) {
    throw_operands("batch_norm", {&running_mean, &running_var}, "running statistics must be contiguous");
  }
}

Tensor batch_norm_training(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& gamma,
                           const Tensor& beta, double momentum, double eps) {
  const Packed packed(x);
  const Tensor scale = packed_or_none(gamma), shift = packed_or_none(beta);
  Tensor y = empty_like(x);
  const Tensor mean = empty({x.shape()[1]}, x.dtype(), x.device()), rstd = empty_like(mean);
  dispatch_floating(x.dtype(), "batch_norm", [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    const DeviceGuard guard(x.device());
    FANOUT_CHECK(kernels::batch_norm_training(
        compute_stream(x.device()).handle, y.data<T>(), mean.data<T>(), rstd.data<T>(),
        pointer_or_null<T>(running_mean), pointer_or_null<T>(running_var), static_cast<const T*>(packed->data<T>()),
        static_cast<const T*>(pointer_or_null<T>(scale)), static_cast<const T*>(pointer_or_null<T>(shift)),
        static_cast<T>(momentum), static_cast<T>(eps), x.shape()[0], x.shape()[1]));
  });
  if (running_mean.defined()) {
    running_mean.count_write();
    running_var.count_write();
  }
  if (auto* node = record<BatchNormNode>(y, x, gamma, beta)) node->save(x, gamma, mean, rstd, eps);
  return y;
}

Tensor batch_norm_evaluation(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                             const Tensor& gamma, const Tensor& beta, double eps) {
  const Packed packed(x), packed_mean(running_mean), packed_var(running_var);
  const Tensor scale = packed_or_none(gamma), shift = packed_or_none(beta);
  Tensor y = empty_like(x);
  dispatch_floating(x.dtype(), "batch_norm", [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    const DeviceGuard guard(x.device());
    FANOUT_CHECK(kernels::batch_norm_evaluation(
        compute_stream(x.device()).handle, y.data<T>(), static_cast<const T*>(packed->data<T>()),
        static_cast<const T*>(packed_mean->data<T>()), static_cast<const T*>(packed_var->data<T>()),
        static_cast<const T*>(pointer_or_null<T>(scale)), static_cast<const T*>(pointer_or_null<T>(shift)),
        static_cast<T>(eps), x.shape()[0], x.shape()[1]));
  });
  if (auto* node = record<FixedBatchNormNode>(y, x, gamma, beta)) node->save(x, gamma, running_mean, running_var, eps);
  return y;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps) {
  if (widens(x, gamma, beta)) return layer_norm(widened(x), widened(gamma), widened(beta), eps);
  const Device device = common_device("layer_norm", x);
  if (x.rank() == 0) throw_operands("layer_norm", {&x}, "at least one dimension is needed");
  require_vector("layer_norm", "gamma", x, gamma);
  require_vector("layer_norm", "beta", x, beta);
  const Packed packed(x);
  const Tensor scale = packed_or_none(gamma), shift = packed_or_none(beta);
  const std::int64_t rows = x.shape().elements(0, x.rank() - 1), cols = x.shape()[x.rank() - 1];
  Tensor y = empty_like(x);
  const Tensor mean = empty({rows}, x.dtype(), device), rstd = empty_like(mean);
  dispatch_floating(x.dtype(), "layer_norm", [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    const DeviceGuard guard(device);
    FANOUT_CHECK(
        kernels::layer_norm(compute_stream(device).handle, y.data<T>(), mean.data<T>(), rstd.data<T>(),
                            static_cast<const T*>(packed->data<T>()), static_cast<const T*>(pointer_or_null<T>(scale)),
                            static_cast<const T*>(pointer_or_null<T>(shift)), static_cast<T>(eps), rows, cols));
  });
  if (auto* node = record<LayerNormNode>(y, x, gamma, beta)) node->save(x, gamma, mean, rstd, eps);
  return y;
}

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& gamma,
                  const Tensor& beta, bool training, double momentum, double eps) {
  if (widens(x, gamma, beta)) {
    return batch_norm(widened(x), running_mean, running_var, widened(gamma), widened(beta), training, momentum, eps);
  }
  check_batch_norm(x, running_mean, running_var, training);
  require_vector("batch_norm", "gamma", x, gamma);
  require_vector("batch_norm", "beta", x, beta);
  return training ? batch_norm_training(x, running_mean, running_var, gamma, beta, momentum, eps)
                  : batch_norm_evaluation(x, running_mean, running_var, gamma, beta, eps);
}

}  // namespace fanout
