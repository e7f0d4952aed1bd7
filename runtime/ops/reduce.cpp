// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/reduce.h"

#include <vector>

#include "kernels/accuracy.h"
#include "runtime/device/context.h"
#include "runtime/ops/fold.h"
#include "runtime/ops/operands.h"

namespace fanout {
namespace {

Shape without(const Shape& shape, int removed) {
  std::vector<std::int64_t> sizes(shape.sizes().begin(), shape.sizes().end());
  sizes.erase(sizes.begin() + removed);
  return Shape(sizes);
}

Tensor sum_along(const Tensor& x, int dim, bool keep_dim, bool divide) {
  common_device("sum", x);
  const Shape& shape = x.shape();
  const int along = shape.normalize(dim);
  const Fold fold{shape.elements(0, along), shape[along], shape.elements(along + 1, shape.rank())};
  return fold_sum(x, fold, keep_dim ? shape.with(along, 1) : without(shape, along),
                  divide ? 1 / static_cast<double>(fold.length) : 1);
}

}  // namespace

Tensor sum(const Tensor& x) {
  common_device("sum", x);
  return fold_sum(x, {1, x.elements(), 1}, {}, 1);
}

Tensor mean(const Tensor& x) {
  common_device("mean", x);
  if (x.elements() == 0) throw_operands("mean", {&x}, "there is nothing to take a mean of: skip the step, or use sum");
  return fold_sum(x, {1, x.elements(), 1}, {}, 1 / static_cast<double>(x.elements()));
}

Tensor sum(const Tensor& x, int dim, bool keep_dim) {
  return sum_along(x, dim, keep_dim, false);
}
Tensor mean(const Tensor& x, int dim, bool keep_dim) {
  return sum_along(x, dim, keep_dim, true);
}

Tensor argmax(const Tensor& x) {
  if (widens(x)) return argmax(widened(x));
  const Device device = common_device("argmax", x);
  if (x.rank() == 0 || x.size(-1) == 0) throw_operands("argmax", {&x}, "the last dimension must have an element");
  const Packed packed(x);
  Tensor indices = empty(without(x.shape(), x.rank() - 1), DType::i64, device);
  dispatch_floating(x.dtype(), "argmax", [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    const DeviceGuard guard(device);
    FANOUT_CHECK(kernels::argmax(compute_stream(device).handle, indices.data<std::int64_t>(),
                                 static_cast<const T*>(packed->data<T>()), indices.elements(), x.size(-1)));
  });
  return indices;
}

Tensor count_correct(const Tensor& logits, const Tensor& labels) {
  const Device device = common_device("count_correct", logits, labels);
  if (logits.rank() != 2 || labels.rank() != 1 || labels.size(0) != logits.size(0) || labels.dtype() != DType::i64) {
    throw_operands("count_correct", {&logits, &labels}, "they must be logits [n, c] and i64 labels [n]");
  }
  const Tensor predictions = argmax(logits);
  const Packed packed(labels);
  Tensor count = empty({}, DType::i64, device);
  const DeviceGuard guard(device);
  FANOUT_CHECK(kernels::count_correct(compute_stream(device).handle, count.data<std::int64_t>(),
                                      predictions.data<std::int64_t>(), packed->data<std::int64_t>(), labels.size(0)));
  return count;
}

}  // namespace fanout
