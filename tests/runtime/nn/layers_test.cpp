// SPDX-License-Identifier: Apache-2.0
// The modules call their operators with the right operands.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/runtime/nn/example_modules.h"

using namespace fanout;
using namespace fanout::testing;

namespace {

std::vector<float> host(const Tensor& tensor) {
  return to_vector<float>(tensor);
}

template <class M>
M on_device(M module) {
  to(module, Device(0));
  return module;
}

}  // namespace

TEST_CASE("Linear computes x weight^T + bias, with and without bias") {
  Linear layer(2, 3);
  copy(layer.weight, from_vector<float>({1, 2, 3, 4, 5, 6}, {3, 2}));
  copy(layer.bias, from_vector<float>({10, 20, 30}, {3}));
  to(layer, Device(0));
  const Tensor x = copied_to(from_vector<float>({1, 1, 2, 0}, {2, 2}), Device(0));
  CHECK(host(layer(x)) == std::vector<float>{13, 27, 41, 12, 26, 40});

  Linear bare(2, 3, false);
  CHECK(parameters(bare).size() == 1);
  load_state_dict(bare, {state_dict(layer)[0]});
  to(bare, Device(0));
  CHECK(host(bare(x)) == std::vector<float>{3, 7, 11, 2, 6, 10});
}

TEST_CASE("activation modules are their operators") {
  const Tensor x = rows(2, 8, Device(0));
  CHECK(host(Relu()(x)) == host(relu(x)));
  CHECK(host(Gelu()(x)) == host(gelu(x)));
  CHECK(host(Tanh()(x)) == host(tanh(x)));
  CHECK(host(Sigmoid()(x)) == host(sigmoid(x)));
  CHECK(host(Softmax()(x)) == host(softmax(x)));
}

TEST_CASE("Dropout drops while training and is the identity in evaluation") {
  Dropout layer{.p = 0.5f};
  const Tensor x = full({1000}, 1, DType::f32, Device(0));
  const std::vector<float> dropped = host(layer(x));
  const auto zeroed = std::count(dropped.begin(), dropped.end(), 0.f),
             doubled = std::count(dropped.begin(), dropped.end(), 2.f);
  CHECK(zeroed + doubled == 1000);
  CHECK((zeroed > 400 && zeroed < 600));
  eval(layer);
  CHECK(host(layer(x)) == host(x));
}

TEST_CASE("LayerNorm normalises rows, then scales and shifts") {
  LayerNorm layer = on_device(LayerNorm(4, {.eps = 0}));
  copy(layer.weight, from_vector<float>({1, 1, 1, 2}, {4}));
  copy(layer.bias, from_vector<float>({0, 0, 0, 5}, {4}));
  const Tensor x = copied_to(from_vector<float>({-1, 1, -1, 1}, {1, 4}), Device(0));
  const std::vector<float> y = host(layer(x)), expected{-1, 1, -1, 7};
  for (std::size_t i = 0; i < 4; ++i) CHECK(y[i] == Approx(expected[i]).epsilon(1e-6));
  CHECK(host(on_device(LayerNorm(4, {.eps = 0, .affine = false}))(x))[3] == Approx(1).epsilon(1e-6));
}

TEST_CASE("BatchNorm1d updates its running statistics only while training, and evaluates with them") {
  BatchNorm1d layer = on_device(BatchNorm1d(1, {.eps = 0, .momentum = 0.5}));
  const Tensor x = copied_to(from_vector<float>({1, 3}, {2, 1}), Device(0));
  const std::vector<float> y = host(layer(x));
  CHECK(y[0] == Approx(-1).epsilon(1e-6));
  CHECK(y[1] == Approx(1).epsilon(1e-6));
  CHECK(host(layer.running_mean)[0] == Approx(1));   // 0.5 * 0 + 0.5 * 2
  CHECK(host(layer.running_var)[0] == Approx(1.5));  // 0.5 * 1 + 0.5 * 2, unbiased
  CHECK(to_vector<std::int64_t>(layer.num_batches_tracked)[0] == 1);
  eval(layer);
  CHECK(host(layer(x))[1] == Approx(2 / std::sqrt(1.5)).epsilon(1e-6));
  CHECK(host(layer.running_mean)[0] == Approx(1));
  CHECK(to_vector<std::int64_t>(layer.num_batches_tracked)[0] == 1);
}

TEST_CASE("a Sequential with a Linear before a Relu gives the same results and gradients as its layers one by one") {
  Linear first(8, 16), second(16, 4, false);
  Sequential net(first, Relu(), second, Relu(), Dropout{.p = 0});
  to(net, Device(0));  // `first` and `second` share its tensors
  const Tensor x = rows(5, 8, Device(0)), target = rows(5, 4, Device(0));
  mse_loss(net(x), target).backward();
  const Tensor y = net(x);
  std::vector<std::vector<float>> fused;
  for (const Tensor& parameter : parameters(net)) fused.push_back(host(parameter.grad()));
  zero_grad(net);
  const Tensor plain = relu(second(relu(first(x))));
  mse_loss(plain, target).backward();
  CHECK(host(plain) == host(y));
  std::size_t at = 0;
  for (const Tensor& parameter : parameters(net)) {
    const std::vector<float> gradient = host(parameter.grad());
    for (std::size_t i = 0; i < gradient.size(); ++i) CHECK(gradient[i] == Approx(fused[at][i]).margin(1e-7));
    ++at;
  }
}

TEST_CASE("a Sequential can be extended and copied, the copy has its own list of the same layers") {
  Sequential net(Linear(8, 8));
  const Sequential copy_of_net = net;
  net.append(Relu());
  CHECK(net.size() == 2);
  CHECK(copy_of_net.size() == 1);
  CHECK(parameters(copy_of_net)[0].handle() == parameters(net)[0].handle());
  CHECK_THROWS_AS(net[2], std::out_of_range);
}
