// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/loss.h"

#include <catch2/catch.hpp>

#include "runtime/ops/activation.h"
#include "runtime/ops/shape.h"
#include "tests/runtime/gradcheck.h"

namespace fanout::testing {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("cross_entropy is the mean of minus the logarithm of the label's probability") {
  const Tensor logits = on_device<double>({0, std::log(3), std::log(4), 0, 1000, 0}, {3, 2});
  const Tensor labels = on_device<std::int64_t>({0, 0, 1}, {3});
  const Tensor loss = cross_entropy(logits, labels);
  CHECK(loss.shape() == Shape{});
  require_close({item(loss)}, {(-std::log(0.25) - std::log(0.8) + 1000) / 3});
}

TEST_CASE("cross_entropy has the derivative that differences give, whatever is made of it") {
  const Tensor logits = random_tensor({5, 3}, 1, -2, 2), labels = on_device<std::int64_t>({0, 2, 1, 2, 2}, {5});
  gradcheck([&](const Inputs& in) { return cross_entropy(in[0], labels); }, {logits});
  gradcheck([&](const Inputs& in) { return cross_entropy(in[0], labels) * 3 + 1; }, {logits});
  gradcheck([&](const Inputs& in) { return cross_entropy(transpose(in[0]), labels); }, {random_tensor({3, 5}, 2)});
  gradcheck([&](const Inputs& in) { return square(cross_entropy(tanh(in[0]), labels)) + sum(in[0]); }, {logits});
}

TEST_CASE("cross_entropy as the end of the graph needs no upstream gradient, and may run again if kept") {
  const Tensor logits = leaf_of(on_device<double>({0, 0}, {1, 2})), labels = on_device<std::int64_t>({1}, {1});
  const Tensor loss = cross_entropy(relu(logits + 1), labels);
  backward(loss, {}, {.retain_graph = true});
  CHECK(to_vector<double>(logits.grad()) == std::vector<double>{0.5, -0.5});
  loss.backward();
  CHECK(to_vector<double>(logits.grad()) == std::vector<double>{1, -1});
  CHECK_THROWS_WITH(loss.backward(), Contains("cross_entropy") && Contains("already ran"));
}

TEST_CASE("a loss over nothing is refused") {
  const Tensor nothing = zeros({0, 3}, DType::f64, Device(0));
  CHECK_THROWS_WITH(cross_entropy(nothing, zeros({0}, DType::i64, Device(0))),
                    "cross_entropy: f64 [0, 3] on cuda:0; there is nothing to take a mean of: skip the step");
  CHECK_THROWS_WITH(mse_loss(nothing, nothing),
                    "mse_loss: f64 [0, 3] on cuda:0; there is nothing to take a mean of: skip the step");
}

TEST_CASE("a label outside the classes makes cross_entropy NaN") {
  const Tensor logits = leaf_of(zeros({2, 2}, DType::f64, Device(0)));
  const Tensor loss = cross_entropy(logits, on_device<std::int64_t>({0, 2}, {2}));
  CHECK(std::isnan(item(loss)));
  loss.backward();
  const std::vector<double> gradient = to_vector<double>(logits.grad());
  CHECK(gradient[0] == -0.25);
  CHECK(std::isnan(gradient[2]));
}

TEST_CASE("cross_entropy has no second derivative and says so") {
  const Tensor logits = leaf_of(zeros({2, 2}, DType::f64, Device(0)));
  const Tensor loss = cross_entropy(logits, zeros({2}, DType::i64, Device(0)));
  CHECK_THROWS_WITH(backward(loss, {}, {.create_graph = true}), Contains("cross_entropy has no second derivative"));
}

TEST_CASE("mse_loss is the mean of squared differences") {
  const Tensor x = on_device<double>({1, 2, 3, 4}, {2, 2}), target = on_device<double>({1, 0, 6, 4}, {2, 2});
  CHECK(item(mse_loss(x, target)) == 13.0 / 4);
}

TEST_CASE("mse_loss has the first and second derivatives that differences give, by both operands") {
  const Tensor x = random_tensor({3, 5}, 1), target = random_tensor({3, 5}, 2);
  check_derivatives([](const Inputs& in) { return mse_loss(in[0], in[1]); }, {x, target});
  check_derivatives([&](const Inputs& in) { return mse_loss(in[0], target); }, {x});
  check_derivatives([](const Inputs& in) { return mse_loss(transpose(in[0]), tanh(transpose(in[1]))) * 2; },
                    {x, target});
}

TEST_CASE("losses name what is wrong") {
  const Tensor logits = zeros({2, 3}, DType::f32, Device(0)), labels = zeros({2}, DType::i64, Device(0));
  CHECK_THROWS_WITH(cross_entropy(logits, zeros({3}, DType::i64, Device(0))),
                    Contains("cross_entropy: f32 [2, 3] on cuda:0 and i64 [3] on cuda:0"));
  CHECK_THROWS_WITH(cross_entropy(logits, zeros({2}, DType::f32, Device(0))), Contains("i64 labels [n]"));
  CHECK_THROWS_AS(cross_entropy(logits, zeros({2}, DType::i64, Device::host())), PlacementError);
  CHECK_THROWS_WITH(cross_entropy(logits, zeros({2}, DType::i64, Device(1))), Contains("cuda:0 and cuda:1"));
  CHECK_THROWS_WITH(mse_loss(logits, zeros({3, 2}, DType::f32, Device(0))), Contains("mse_loss") && Contains("[3, 2]"));
}

}  // namespace
}  // namespace fanout::testing
