// SPDX-License-Identifier: Apache-2.0
// Launches of elementwise kernels over tensors, and nodes that keep their own output.
#pragma once

#include "runtime/autograd/node.h"
#include "runtime/device/context.h"
#include "runtime/ops/operands.h"

namespace fanout {

/// Queues kernel(stream, T* y, const T*... inputs, n) on y's device. All are contiguous, of one floating dtype and as
/// many elements as y.
template <class Kernel, class... Inputs>
void launch_elementwise(const char* operation, Kernel kernel, const Tensor& y, const Inputs&... inputs) {
  dispatch_floating(y.dtype(), operation, [&]<class Tag>(Tag) {
    using T = typename Tag::type;
    const DeviceGuard guard(y.device());
    detail::check(kernel(compute_stream(y.device()).handle, y.data<T>(),
                         static_cast<const T*>(inputs.template data<T>())..., y.elements()),
                  operation);
  });
}

/// y = kernel(x), elementwise, in new memory; outside the graph.
template <class Kernel>
Tensor map_elements(const char* operation, Kernel kernel, const Tensor& x) {
  common_device(operation, x);
  const Packed packed(x);
  Tensor y = empty_like(x);
  launch_elementwise(operation, kernel, y, *packed);
  return y;
}

/// kernel(gradient, saved...), elementwise, in the gradient's own memory where nobody else sees it.
template <class Kernel, class... Saved>
Tensor map_gradient(const char* operation, Kernel kernel, Tensor gradient, const Saved&... saved) {
  if (gradient.is_exclusive()) {
    launch_elementwise(operation, kernel, gradient, gradient, saved...);
    return gradient;
  }
  const Packed packed(gradient);
  Tensor result = empty_like(gradient);
  launch_elementwise(operation, kernel, result, *packed, saved...);
  return result;
}

/// Base of nodes whose gradient is written in terms of their output.
class OutputNode : public Node {
 public:
  using Node::Node;
  void save_output(const Tensor& output) { output_ = SavedTensor::output(output); }
  void release_saved() override { output_.release(); }

 protected:
  const Tensor& output() const { return output_.unpack(name()); }
  /// The output as the result of this node, for second derivatives. The node must not keep it: it would keep itself.
  Tensor output_in_graph() {
    const Tensor result = output().detach();
    attach(result, Intrusive<Node>(this));
    return result;
  }

 private:
  SavedTensor output_;
};

}  // namespace fanout
