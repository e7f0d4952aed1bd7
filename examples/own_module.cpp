// SPDX-License-Identifier: Apache-2.0
// A module of your own, trained on all devices at once.
#include <cstdio>
#include <exception>
#include <vector>

#include "runtime/nn/linear.h"
#include "runtime/nn/move.h"
#include "runtime/nn/norm.h"
#include "runtime/nn/sequential.h"
#include "runtime/ops/activation.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/ops/loss.h"
#include "runtime/ops/shape.h"
#include "runtime/optim/sgd.h"
#include "runtime/parallel/data_parallel.h"
#include "runtime/tensor/random.h"

using namespace fanout;

// A module is a struct: layers are members, `visit` names them, the call operator is the forward. There is no base
// class, nothing to register, and backward follows from the operators used.
struct ResidualBlock {
  LayerNorm norm{32};
  Linear up{32, 64}, down{64, 32};
  void visit(Visitor& member) {
    member("norm", norm);
    member("up", up);
    member("down", down);
  }
  Tensor operator()(const Tensor& x) { return x + down(gelu(up(norm(x)))); }  // [batch, 32] → [batch, 32]
};

int train_net() {
  // Points in 8 dimensions; the label is the quadrant of the first two coordinates.
  constexpr std::int64_t kRows = 256;
  manual_seed(0);
  std::vector<float> points;
  std::vector<std::int64_t> labels;
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (int i = 0; i < 8; ++i) points.push_back(static_cast<float>(host_generator().normal()));
    labels.push_back((points.end()[-8] > 0 ? 1 : 0) + (points.end()[-7] > 0 ? 2 : 0));
  }
  const Tensor batch = from_vector(points, {kRows, 8});                // stays on the host: forward scatters it
  const Tensor targets = to(from_vector(labels, {kRows}), Device(0));  // where the outputs are gathered

  // Your module goes wherever fanout's own go; its first weight is now named "1.up.weight".
  Sequential net(Linear(8, 32), ResidualBlock(), ResidualBlock(), Linear(32, 4));
  to(net, Device(0));          // parameters start on the host and must be on the primary
  DataParallel parallel(net);  // on all devices; the others get the parameters again when they have changed
  Sgd optimizer(parameters(net), {.learning_rate = 0.1, .momentum = 0.9});
  double first = 0, last = 0;
  for (int step = 0; step <= 50; ++step) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(parallel(batch), targets);
    loss.backward();  // gradients of all devices are summed on the primary
    optimizer.step();
    last = item(loss);
    if (step == 0) first = last;
    if (step % 10 == 0) std::printf("step %2d  loss %.4f\n", step, last);
  }
  return last < 0.5 * first ? 0 : 1;
}

int main() {
  try {
    return train_net();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
