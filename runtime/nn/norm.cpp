// SPDX-License-Identifier: Apache-2.0
#include "runtime/nn/norm.h"

#include <fmt/format.h>

#include "kernels/arithmetic.h"
#include "runtime/device/context.h"
#include "runtime/nn/init.h"
#include "runtime/ops/norm.h"

namespace fanout {
namespace {

Shape feature_shape(const char* layer, std::int64_t features) {
  if (features < 1) throw InvalidArgument(fmt::format("{}({}): there must be at least 1 feature", layer, features));
  return {features};
}

Parameter constant_parameter(bool wanted, const Shape& shape, double value, DType dtype) {
  if (!wanted) return Parameter();
  Parameter parameter(shape, dtype);
  init::constant(parameter, value);
  return parameter;
}

}  // namespace

LayerNorm::LayerNorm(std::int64_t features, LayerNormOptions options)
    : weight(constant_parameter(options.affine, feature_shape("LayerNorm", features), 1, options.dtype)),
      bias(constant_parameter(options.affine, {features}, 0, options.dtype)),
      eps(options.eps) {}

void LayerNorm::visit(Visitor& member) {
  if (weight.defined()) member("weight", weight);
  if (bias.defined()) member("bias", bias);
}

Tensor LayerNorm::operator()(const Tensor& x) const {
  return layer_norm(x, weight, bias, eps);
}

BatchNorm1d::BatchNorm1d(std::int64_t features, BatchNormOptions options)
    : weight(constant_parameter(options.affine, feature_shape("BatchNorm1d", features), 1, options.dtype)),
      bias(constant_parameter(options.affine, {features}, 0, options.dtype)),
      running_mean(Shape{features}, options.dtype),
      running_var(Shape{features}, options.dtype),
      num_batches_tracked(Shape{}, DType::i64),
      eps(options.eps),
      momentum(options.momentum) {
  init::ones(running_var);
}

void BatchNorm1d::visit(Visitor& member) {
  if (weight.defined()) member("weight", weight);
  if (bias.defined()) member("bias", bias);
  member("running_mean", running_mean);
  member("running_var", running_var);
  member("num_batches_tracked", num_batches_tracked);
  member("mode", mode);
}

Tensor BatchNorm1d::operator()(const Tensor& x) const {
  if (mode.training) count_batch();
  return batch_norm(x, running_mean, running_var, weight, bias, mode.training, momentum, eps);
}

// As torch does, before the batch is used.
void BatchNorm1d::count_batch() const {
  const Device device = num_batches_tracked.device();
  if (device.is_host()) return;  // batch_norm says what is wrong
  const DeviceGuard guard(device);
  auto* count = num_batches_tracked.data<std::int64_t>();
  FANOUT_CHECK(kernels::add_scalar<std::int64_t>(compute_stream(device).handle, count, count, 1, 1));
  num_batches_tracked.count_write();
}

}  // namespace fanout
