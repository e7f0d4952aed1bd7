// SPDX-License-Identifier: Apache-2.0
// One step of training, against the installed headers and libraries: the loss of the same batch must go down.
#include <cstdio>
#include <exception>

#include "runtime/nn/activation.h"
#include "runtime/nn/linear.h"
#include "runtime/nn/move.h"
#include "runtime/ops/loss.h"
#include "runtime/optim/sgd.h"
#include "runtime/parallel/data_parallel.h"

namespace {

struct Net {
  fanout::Linear in{2, 8}, out{8, 1};
  void visit(fanout::Visitor& member) {
    member("in", in);
    member("out", out);
  }
  fanout::Tensor operator()(const fanout::Tensor& x) const { return out(tanh(in(x))); }  // [batch, 2] → [batch, 1]
};

int train_step() {
  Net net;
  to(net, fanout::Device(0));
  fanout::DataParallel parallel(net);
  fanout::Sgd optimizer(fanout::parameters(net), {.learning_rate = 0.1});
  const fanout::Tensor points = fanout::from_vector<float>({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2});
  const fanout::Tensor ones = fanout::full({4, 1}, 1, fanout::DType::f32, fanout::Device(0));

  const fanout::Tensor before = mse_loss(parallel(points), ones);
  before.backward();
  optimizer.step();
  const double after = item(mse_loss(parallel(points), ones));
  std::printf("loss %.4f, after a step %.4f\n", item(before), after);
  return after < item(before) ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return train_step();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
