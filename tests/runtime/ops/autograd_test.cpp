// SPDX-License-Identifier: Apache-2.0
// The engine, driven by real operators.
#include <catch2/catch.hpp>

#include "runtime/ops/activation.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/ops/loss.h"
#include "runtime/ops/matmul.h"
#include "runtime/ops/shape.h"
#include "tests/runtime/gradcheck.h"

namespace fanout::testing {
namespace {

using Catch::Matchers::Contains;

Tensor leaf(const std::vector<double>& values) {
  return on_device(values, {static_cast<std::int64_t>(values.size())}).set_requires_grad();
}

TEST_CASE("gradients of two backwards add up until they are cleared") {
  const Tensor x = leaf({1, 2});
  sum(x * 3).backward();
  sum(x * 4).backward();
  CHECK(gradient_of(x) == std::vector<double>{7, 7});
  x.clear_grad();
  CHECK_FALSE(x.grad().defined());
  sum(x * 5).backward();
  CHECK(gradient_of(x) == std::vector<double>{5, 5});
}

TEST_CASE("a leaf used twice by one operator gets both contributions") {
  const Tensor x = leaf({3, -4});
  sum(x * x).backward();
  CHECK(gradient_of(x) == std::vector<double>{6, -8});
}

TEST_CASE("a diamond passes its middle once, with both branches added") {
  const Tensor x = leaf({2});
  const Tensor middle = x * 3;  // 6
  const Tensor left = middle * 5, right = square(middle);
  sum(left + right * left).backward();  // (5 m + 5 m³)' = 5 + 15 m² = 545, times 3
  CHECK(gradient_of(x) == std::vector<double>{1635});
}

TEST_CASE("a ladder of diamonds takes time linear in its rungs") {
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int rung = 0; rung < 60; ++rung) y = (y + y) * 0.5;
  sum(y).backward();
  CHECK(gradient_of(x) == std::vector<double>{1});
}

TEST_CASE("a kept graph runs again, one that is not kept says why it cannot") {
  const Tensor x = leaf({0.5});
  const Tensor y = sum(tanh(x));
  backward(y, {}, {.retain_graph = true});
  const double once = gradient_of(x)[0];
  y.backward();
  CHECK(gradient_of(x)[0] == 2 * once);
  CHECK_THROWS_AS(y.backward(), InvalidArgument);
  CHECK_THROWS_WITH(y.backward(), Contains("tanh: backward already ran through this graph"));
}

TEST_CASE("a write in place between forward and backward is found and named") {
  const Tensor x = leaf({1, 2}), constant = on_device<double>({3, 4}, {2});
  const Tensor y = sum(x * constant);
  copy(narrow(constant, 0, 0, 1), full({1}, 9, DType::f64, Device(0)));
  CHECK_THROWS_AS(y.backward(), InvalidArgument);
  CHECK_THROWS_WITH(y.backward(), Contains("multiply") && Contains("written in place"));
}

TEST_CASE("an optimizer's write to a weight between forward and backward is found") {
  const Tensor x = leaf_of(random_tensor({2, 3}, 1)), weight = leaf_of(random_tensor({4, 3}, 2));
  const Tensor y = sum(linear(x, weight));
  copy(weight, zeros({4, 3}, DType::f64, Device(0)));
  CHECK_THROWS_WITH(y.backward(), Contains("linear") && Contains("written in place"));
}

TEST_CASE("no graph is built under NoGrad, from detached tensors, or from what needs no gradient") {
  const Tensor x = leaf({1});
  {
    const NoGrad no_grad;
    CHECK_FALSE((x * 2).requires_grad());
  }
  CHECK((x * 2).requires_grad());
  CHECK_FALSE((x.detach() * 2).requires_grad());
  CHECK_THROWS_WITH((x.detach() * 2).backward(), Contains("depends on no tensor that requires a gradient"));
}

TEST_CASE("an output of several elements needs a gradient of its shape") {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 2;
  CHECK_THROWS_WITH(y.backward(), Contains("pass a gradient of its shape"));
  backward(y, on_device<double>({10, 20}, {2}));
  CHECK(gradient_of(x) == std::vector<double>{20, 40});
}

TEST_CASE("the caller's gradient and the leaves' are not overwritten by operators that reuse memory") {
  const Tensor x = leaf({-1, 2});
  const Tensor gradient = on_device<double>({10, 20}, {2});
  backward(relu(tanh(x) * 1), gradient);
  CHECK(to_vector<double>(gradient) == std::vector<double>{10, 20});
  const std::vector<double> before = gradient_of(x);
  backward(relu(x * 1), x.grad());
  CHECK(gradient_of(x)[0] == before[0]);
  CHECK(gradient_of(x)[1] == 2 * before[1]);
}

TEST_CASE("a chain of 200000 nodes runs backwards and is destroyed without deep recursion") {
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 200000; ++i) y = y + 0.5;
  sum(y).backward();
  CHECK(gradient_of(x) == std::vector<double>{1});
  y = Tensor();
}

TEST_CASE("a graph over two devices gives the gradients of one device, bit by bit") {
  const Tensor x = random_tensor({6, 5}, 1), labels = on_device<std::int64_t>({0, 1, 2, 0, 1, 2}, {6});
  const auto run = [&](Device second) {
    const Tensor w0 = leaf_of(random_tensor({7, 5}, 2)), w1 = leaf_of(random_tensor({3, 7}, 3));
    const Tensor hidden = linear_relu(x, w0);
    const Tensor there = to(hidden, second);
    const Tensor logits = to(linear(there, to(w1, second)) + to(linear(hidden, w1), second), Device(0));
    cross_entropy(logits, labels).backward();
    CHECK(w0.grad().device() == Device(0));
    return std::pair(gradient_of(w0), gradient_of(w1));
  };
  const auto expected = run(Device(0));
  for (int repeat = 0; repeat < 20; ++repeat) CHECK(run(Device(1)) == expected);
}

TEST_CASE("every device's branch adds to one leaf") {
  const Tensor x = leaf({1, 2});
  Tensor total = zeros({}, DType::f64, Device(0));
  for (int device = 0; device < device_count(); ++device) {
    total = total + to(sum(square(to(x, Device(device)))), Device(0));
  }
  total.backward();
  const double devices = device_count();
  CHECK(gradient_of(x) == std::vector<double>{2 * devices, 4 * devices});
}

TEST_CASE("a leaf on the host gets its gradient there, from several devices and backwards") {
  const Tensor x = from_vector<double>({1, 2}, {2}).set_requires_grad();
  const auto loss = [&] {
    return sum(to(x, Device(0)) * 2) + to(sum(square(to(reshape(x, {2, 1}), Device(1)))), Device(0));
  };
  loss().backward();
  CHECK(x.grad().device().is_host());
  CHECK(gradient_of(x) == std::vector<double>{4, 6});
  loss().backward();
  CHECK(gradient_of(x) == std::vector<double>{8, 12});
}

TEST_CASE("create_graph gives gradients that can be differentiated again and again") {
  const Tensor x = leaf({2});
  backward(sum(square(x) * x), {}, {.create_graph = true});  // 3 x²
  const Tensor first = x.grad();
  x.clear_grad();
  CHECK(item(first) == 12);
  backward(sum(first), {}, {.create_graph = true});  // 6 x
  const Tensor second = x.grad();
  x.clear_grad();
  CHECK(item(second) == 12);
  sum(second).backward();
  CHECK(item(x.grad()) == 6);
}

TEST_CASE("a small network has the first and second derivatives that differences give") {
  const Tensor target = random_tensor({4, 2}, 9);
  check_derivatives(
      [&](const Inputs& in) { return mse_loss(linear(tanh(linear_relu(in[0], in[1], in[2])), in[3]), target); },
      {random_tensor({4, 3}, 1), random_tensor({5, 3}, 2), random_tensor({5}, 3), random_tensor({2, 5}, 4)});
}

}  // namespace
}  // namespace fanout::testing
