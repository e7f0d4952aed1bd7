// SPDX-License-Identifier: Apache-2.0
#include "runtime/autograd/grad.h"

#include <fmt/format.h>

#include <deque>

#include "runtime/autograd/node_hooks.h"

namespace fanout {
namespace {

// Where the gradients of some edges are written while it lives.
class Captures {
 public:
  Captures() = default;
  Captures(const Captures&) = delete;
  Captures& operator=(const Captures&) = delete;
  ~Captures() {
    for (const Edge& edge : edges_) edge.node->hooks().slot(edge.slot).captured = nullptr;
  }

  /// The gradient of `edge`, once the pass is over; the same for an edge that is given again.
  const Tensor& add(const Edge& edge) {
    Tensor*& captured = edge.node->hooks().slot(edge.slot).captured;
    if (captured == nullptr) {
      captured = &gradients_.emplace_back();
      edges_.push_back(edge);
    }
    return *captured;
  }
  const std::vector<Edge>& edges() const { return edges_; }

 private:
  std::vector<Edge> edges_;
  std::deque<Tensor> gradients_;
};

void require_gradients(const std::vector<Tensor>& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (tracked(inputs[i])) continue;
    throw InvalidArgument(fmt::format(
        "grad: input {}, {}, requires no gradient; call set_requires_grad on it before the output is computed", i,
        inputs[i].text()));
  }
}

}  // namespace

std::vector<Tensor> grad(const Tensor& output, const std::vector<Tensor>& inputs, const Tensor& gradient,
                         BackwardOptions options) {
  require_gradients(inputs);
  Captures captures;
  std::vector<const Tensor*> places;
  for (const Tensor& input : inputs) places.push_back(&captures.add(detail::edge_of(input)));
  Tensor first = detail::first_gradient("grad", output, gradient, options);
  if (!inputs.empty()) BackwardPass(options, Targets(captures.edges())).run(output, std::move(first));
  std::vector<Tensor> gradients;
  for (const Tensor* place : places) gradients.push_back(*place);
  return gradients;
}

}  // namespace fanout
