// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/convert.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/convert.h"
#include "runtime/autograd/node.h"
#include "runtime/device/context.h"
#include "runtime/tensor/copy.h"

namespace fanout {
namespace {

struct ConvertNode final : Node {
  using Node::Node;
  DType from = DType::f32;
  std::string_view name() const override { return "convert"; }
  std::vector<Tensor> differentiate(const Tensor& gradient) override { return {convert(gradient, from)}; }
};

template <class To, class From>
void convert_elements(const Tensor& y, const Tensor& x) {
  if (x.device().is_host()) {
    std::transform(x.data<From>(), x.data<From>() + x.elements(), y.data<To>(),
                   [](From element) { return static_cast<To>(static_cast<double>(element)); });
    return;
  }
  const DeviceGuard guard(x.device());
  FANOUT_CHECK(
      (kernels::convert<To, From>(compute_stream(x.device()).handle, y.data<To>(), x.data<From>(), 1, x.elements())));
}

}  // namespace

Tensor convert(const Tensor& x, DType dtype) {
  if (!x.defined()) throw InvalidArgument("convert: an undefined tensor");
  if (x.dtype() == dtype) return x;
  if (!is_floating(dtype)) {
    throw InvalidArgument(fmt::format("convert: {} to {}; f32, f64 and bf16 are possible", x.text(), name(dtype)));
  }
  const Tensor packed = contiguous_copy(x);
  Tensor y = empty(x.shape(), dtype, x.device());
  dispatch_any(x.dtype(), [&]<class From>(From) {
    dispatch_any_floating(dtype, "convert",
                          [&]<class To>(To) { convert_elements<typename To::type, typename From::type>(y, packed); });
  });
  if (auto* node = record<ConvertNode>(y, x)) node->from = x.dtype();
  return y;
}

}  // namespace fanout
