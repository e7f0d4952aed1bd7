// SPDX-License-Identifier: Apache-2.0
#include "runtime/autograd/accumulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "kernels/arithmetic.h"
#include "runtime/autograd/node.h"
#include "runtime/device/context.h"
#include "runtime/tensor/copy.h"

namespace fanout {
namespace {

struct AddNode final : Node {
  using Node::Node;
  std::string_view name() const override { return "add"; }
  std::vector<Tensor> differentiate(const Tensor& gradient) override { return {gradient, gradient}; }
};

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  if (!(a.shape() == b.shape()) || a.dtype() != b.dtype() || a.device() != b.device() || a.device().is_host()) {
    throw InvalidArgument(fmt::format(
        "add: {} and {}; shape, dtype and device must agree, and operators run on devices only", a.text(), b.text()));
  }
  const Tensor sum = empty_like(a);
  const Tensor packed_a = contiguous_copy(a), packed_b = contiguous_copy(b);
  dispatch_any_floating(a.dtype(), "add", [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    const DeviceGuard guard(a.device());
    FANOUT_CHECK(kernels::add(compute_stream(a.device()).handle, sum.data<T>(),
                              static_cast<const T*>(packed_a.data<T>()), static_cast<const T*>(packed_b.data<T>()),
                              sum.elements()));
  });
  record<AddNode>(sum, a, b);
  return sum;
}

void add_in_place(const Tensor& target, const Tensor& source) {
  dispatch_any_floating(target.dtype(), "add_in_place", [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    if (target.device().is_host()) {  // the gradient of a leaf that was copied to a device by `to`
      const T* from = source.data<T>();
      std::transform(from, from + target.elements(), target.data<T>(), target.data<T>(), std::plus<T>());
      return;
    }
    const DeviceGuard guard(target.device());
    T* const sum = target.data<T>();
    FANOUT_CHECK(kernels::add(compute_stream(target.device()).handle, sum, static_cast<const T*>(sum),
                              static_cast<const T*>(source.data<T>()), target.elements()));
  });
}

}  // namespace fanout
