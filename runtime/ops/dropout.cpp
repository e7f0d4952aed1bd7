// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/dropout.h"

#include <fmt/format.h>

#include "kernels/dropout.h"
#include "runtime/ops/elementwise.h"
#include "runtime/tensor/random.h"

namespace fanout {
namespace {

struct Mask {
  double p;
  RandomRange range;
};

Tensor masked(const Tensor& x, const Mask& mask);

struct DropoutNode final : Node {
  using Node::Node;
  Mask mask{};
  std::string_view name() const override { return "dropout"; }
  std::vector<Tensor> differentiate(const Tensor& gradient) override { return {masked(gradient, mask)}; }
};

Tensor masked(const Tensor& x, const Mask& mask) {
  if (widens(x)) return masked(widened(x), mask);
  const auto kernel = [&mask]<class T>(cudaStream_t stream, T* y, const T* from, std::int64_t n) {
    return kernels::dropout(stream, y, from, static_cast<T>(mask.p), mask.range.seed, mask.range.offset, n);
  };
  Tensor y = map_elements("dropout", kernel, x);
  if (auto* node = record<DropoutNode>(y, x)) node->mask = mask;
  return y;
}

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training) {
  if (!(p >= 0 && p <= 1)) throw InvalidArgument(fmt::format("dropout: p is {}; it must be in [0, 1]", p));
  const Device device = common_device("dropout", x);
  if (!training || p == 0) return x;
  return masked(x, {p, next_random_range(device, x.elements())});
}

}  // namespace fanout
