// SPDX-License-Identifier: Apache-2.0
// Modules, operators and optimizers together: small nets learn.
#include <catch2/catch.hpp>
#include <cmath>

#include "runtime/nn/activation.h"
#include "runtime/nn/linear.h"
#include "runtime/nn/move.h"
#include "runtime/nn/norm.h"
#include "runtime/nn/sequential.h"
#include "runtime/ops/loss.h"
#include "runtime/optim/adam.h"
#include "runtime/optim/sgd.h"
#include "runtime/tensor/copy.h"
#include "runtime/tensor/random.h"

using namespace fanout;

namespace {

const Tensor& xor_inputs() {
  static const Tensor inputs = copied_to(from_vector<float>({0, 0, 0, 1, 1, 0, 1, 1}, {4, 2}), Device(0));
  return inputs;
}
const Tensor& xor_labels() {
  static const Tensor labels = copied_to(from_vector<std::int64_t>({0, 1, 1, 0}, {4}), Device(0));
  return labels;
}

template <class M>
double train_on_xor(M& module, Optimizer& optimizer, int steps) {
  double loss_value = 0;
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(module(xor_inputs()), xor_labels());
    loss.backward();
    optimizer.step();
    if (step + 1 == steps) loss_value = item(loss);
  }
  return loss_value;
}

}  // namespace

TEST_CASE("a Sequential learns XOR with Sgd, Adam and AdamW") {
  manual_seed(1);
  Sequential net(Linear(2, 16), Tanh(), Linear(16, 16), Relu(), Linear(16, 2));
  to(net, Device(0));
  const Sequential start = clone(net);
  const auto fresh = [&] { return clone(start); };
  Sequential by_sgd = fresh(), by_adam = fresh(), by_adamw = fresh();
  Sgd sgd(parameters(by_sgd), {.learning_rate = 0.1, .momentum = 0.9});
  Adam adam(parameters(by_adam), {.learning_rate = 0.01});
  AdamW adamw(parameters(by_adamw), {.learning_rate = 0.01});
  CHECK(train_on_xor(by_sgd, sgd, 300) < 0.01);
  CHECK(train_on_xor(by_adam, adam, 300) < 0.01);
  CHECK(train_on_xor(by_adamw, adamw, 300) < 0.01);
  CHECK(to_vector<float>(parameters(net)[0]) == to_vector<float>(parameters(start)[0]));
}

TEST_CASE("the same seed trains to the same bits") {
  const auto trained = [] {
    manual_seed(3);
    Sequential net(Linear(2, 8), Relu(), BatchNorm1d(8), Linear(8, 2));
    to(net, Device(0));
    Adam optimizer(parameters(net));
    train_on_xor(net, optimizer, 20);
    return to_vector<float>(parameters(net)[0]);
  };
  CHECK(trained() == trained());
}
