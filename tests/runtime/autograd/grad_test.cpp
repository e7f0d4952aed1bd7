// SPDX-License-Identifier: Apache-2.0
// grad(): gradients as values.
#include <catch2/catch.hpp>

#include <thread>

#include "runtime/autograd/grad.h"
#include "runtime/autograd/hook.h"
#include "runtime/ops/activation.h"
#include "runtime/ops/loss.h"
#include "runtime/ops/matmul.h"
#include "runtime/ops/norm.h"
#include "runtime/ops/shape.h"
#include "tests/runtime/gradcheck.h"

namespace fanout::testing {
namespace {

using Catch::Matchers::Contains;
using Values = std::vector<double>;

Tensor leaf(const Values& values) {
  return on_device(values, {static_cast<std::int64_t>(values.size())}).set_requires_grad();
}

TEST_CASE("grad gives the gradients of leaves and of results, and no tensor keeps one") {
  const Tensor x = leaf({1, 2}), w = leaf({5, 7});
  sum(w * 3).backward();
  const Tensor y = x * 3, z = sum(y * y * w);
  const std::vector<Tensor> gradients = grad(z, {y, x, w});
  REQUIRE(gradients.size() == 3);
  CHECK(to_vector<double>(gradients[0]) == Values{30, 84});   // 2 y w
  CHECK(to_vector<double>(gradients[1]) == Values{90, 252});  // 6 y w
  CHECK(to_vector<double>(gradients[2]) == Values{9, 36});    // y²
  CHECK_FALSE(x.grad().defined());
  CHECK(gradient_of(w) == Values{3, 3});
  for (const Tensor& gradient : gradients) CHECK_FALSE(gradient.requires_grad());
}

TEST_CASE("grad agrees with what backward leaves at the leaves, for any output and gradient") {
  const Inputs leaves = leaves_of({random_tensor({4, 3}, 1), random_tensor({5, 3}, 2), random_tensor({5}, 3)});
  const Tensor upstream = random_tensor({4, 5}, 4);
  const auto output = [&] { return tanh(linear_relu(leaves[0], leaves[1], leaves[2])) * 2; };
  const std::vector<Tensor> gradients = grad(output(), leaves, upstream);
  backward(output(), upstream);
  for (std::size_t i = 0; i < leaves.size(); ++i) CHECK(to_vector<double>(gradients[i]) == gradient_of(leaves[i]));
}

TEST_CASE("a tensor that the output does not depend on has an undefined gradient") {
  const Tensor x = leaf({1}), other = leaf({1}), beside = other * 2;
  const std::vector<Tensor> gradients = grad(sum(x * 2), {other, x, beside});
  CHECK_FALSE(gradients[0].defined());
  CHECK(item(gradients[1]) == 2);
  CHECK_FALSE(gradients[2].defined());
  CHECK_FALSE(grad(sum(x * 2), {other})[0].defined());
  CHECK(grad(sum(x * 2), {}).empty());
}

TEST_CASE("the output itself and an input that is given twice have gradients too") {
  const Tensor x = leaf({3}), y = x * 2;
  const std::vector<Tensor> gradients = grad(y, {x, y, x});
  CHECK(item(gradients[0]) == 2);
  CHECK(item(gradients[1]) == 1);
  CHECK(item(gradients[2]) == 2);
  CHECK(item(grad(x, {x})[0]) == 1);
  CHECK_FALSE(x.grad().defined());
  const Tensor loss =
      cross_entropy(leaf_of(random_tensor({2, 3}, 1)), on_device<std::int64_t>({0, 1}, {2}));  // implies its 1
  CHECK(item(grad(loss, {loss})[0]) == 1);
}

TEST_CASE("only what leads to the inputs runs") {
  const Tensor a = leaf({0.5}), b = leaf({0.25});
  const Tensor on_way = tanh(a), beside = tanh(b), below = a * 1, through = tanh(below);
  int calls = 0;
  const auto count = [&](const Tensor&) { return ++calls, Tensor(); };
  register_hook(beside, count);
  register_hook(below, count);
  const Tensor z = sum(on_way * beside + through);
  grad(z, {a}, {}, {.retain_graph = true});
  CHECK(calls == 1);
  grad(z, {on_way, through});
  CHECK(calls == 1);
  sum(beside).backward();  // what was saved for it is still there, as it is for what lies below the inputs
  sum(through).backward();
  CHECK_THROWS_WITH(z.backward(), Contains("backward already ran through this graph"));
}

TEST_CASE("backward after grad reaches every leaf again, also after a grad that failed") {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4}), middle = x * w;
  const Tensor y = sum(square(middle));
  grad(y, {x}, {}, {.retain_graph = true});
  const HookHandle handle = register_hook(middle, [](const Tensor&) -> Tensor { throw InvalidArgument("no"); });
  CHECK_THROWS_WITH(grad(y, {w}, {}, {.retain_graph = true}), Contains("no"));
  handle.remove();
  y.backward();
  CHECK(gradient_of(x) == Values{18, 64});  // 2 x w²
  CHECK(gradient_of(w) == Values{6, 32});   // 2 x² w
}

TEST_CASE("a graph that grad ran through is kept where that is asked for") {
  const Tensor x = leaf({0.5}), y = sum(tanh(x));
  const double slope = item(grad(y, {x}, {}, {.retain_graph = true})[0]);
  CHECK(item(grad(y, {x})[0]) == slope);
  CHECK_THROWS_WITH(grad(y, {x}), Contains("tanh: backward already ran through this graph"));
}

TEST_CASE("grad refuses inputs and outputs without gradients") {
  const Tensor x = leaf({1, 2}), constant = on_device<double>({1, 2}, {2});
  CHECK_THROWS_AS(grad(sum(x), {x, constant}), InvalidArgument);
  CHECK_THROWS_WITH(grad(sum(x), {x, constant}),
                    "grad: input 1, f64 [2] on cuda:0, requires no gradient; call set_requires_grad on it before the "
                    "output is computed");
  CHECK_THROWS_WITH(grad(sum(x), {Tensor()}), Contains("grad: input 0, an undefined tensor, requires no gradient"));
  CHECK_THROWS_WITH(grad(sum(constant), {x}), Contains("grad: f64 [] on cuda:0 depends on no tensor"));
  CHECK_THROWS_WITH(grad(x * 2, {x}), Contains("grad: only a one-element output has an implied gradient"));
}

TEST_CASE("hooks of the inputs change what grad returns, also where it goes on to another input") {
  const Tensor x = leaf({1}), y = x * 3;
  register_hook(x, [](const Tensor& gradient) { return gradient + 100; });
  register_hook(y, [](const Tensor& gradient) { return gradient * 2; });
  const std::vector<Tensor> gradients = grad(sum(y * 5), {x, y});
  CHECK(item(gradients[0]) == 130);  // 5 * 2 * 3 + 100
  CHECK(item(gradients[1]) == 10);
}

TEST_CASE("second and third derivatives of a polynomial") {
  const Tensor x = leaf({2});
  const Tensor first = grad(sum(square(x) * x), {x}, {}, {.create_graph = true})[0];  // 3 x²
  CHECK(item(first) == 12);
  const Tensor second = grad(sum(first), {x}, {}, {.create_graph = true})[0];  // 6 x
  CHECK(item(second) == 12);
  CHECK(item(grad(sum(second), {x})[0]) == 6);
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("the derivatives of a gradient penalty are those that differences give") {
  const Function penalty = [](const Inputs& at) {
    const Inputs in = at[0].requires_grad() ? at : leaves_of(at);
    const Tensor score = sum(linear(tanh(linear(in[0], in[1], in[2])), in[3]));
    return sum(square(grad(score, {in[0]}, {}, {.create_graph = true})[0]));
  };
  compare_gradients(
      penalty, {random_tensor({4, 3}, 1), random_tensor({5, 3}, 2), random_tensor({5}, 3), random_tensor({1, 5}, 4)});
}

TEST_CASE("operators of several inputs give only the gradients that are asked for") {
  const Tensor x = leaf_of(random_tensor({4, 3}, 1)), gain = leaf_of(random_tensor({3}, 2));
  const auto both = [&] { return weighted_sum(layer_norm(x, gain, gain, 1e-5)); };
  both().backward();
  CHECK(to_vector<double>(grad(both(), {x})[0]) == gradient_of(x));
  CHECK(to_vector<double>(grad(both(), {gain})[0]) == gradient_of(gain));
  const Tensor a = leaf({1}), b = leaf({2});
  const auto joined = [&] { return weighted_sum(square(concat({a, b, a}))); };
  joined().backward();
  CHECK(to_vector<double>(grad(joined(), {a})[0]) == gradient_of(a));
  CHECK(to_vector<double>(grad(joined(), {b})[0]) == gradient_of(b));
}

TEST_CASE("grad goes over several devices and to the host") {
  const Tensor x = from_vector<double>({1, 2}, {2}).set_requires_grad(), w = leaf({3, 4});
  for (int repeat = 0; repeat < 10; ++repeat) {
    Tensor total = zeros({}, DType::f64, Device(0));
    for (int device = 0; device < device_count(); ++device) {
      total = total + to(sum(square(to(x, Device(device))) * to(w, Device(device))), Device(0));
    }
    const Tensor gradient = grad(total, {x})[0];
    const double count = device_count();
    CHECK(gradient.device().is_host());
    CHECK(to_vector<double>(gradient) == Values{6 * count, 16 * count});
  }
  CHECK_FALSE(w.grad().defined());
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("a chain of 200000 nodes has its way found without deep recursion") {
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 200000; ++i) y = y + 0.5;
  CHECK(item(grad(sum(y), {x})[0]) == 1);
}

TEST_CASE("two threads take gradients by their own inputs through parameters that they share") {
  const Tensor weight = leaf_of(random_tensor({5, 3}, 2));
  const auto gradient_at = [&](unsigned seed) {
    const Tensor x = leaf_of(random_tensor({4, 3}, seed));
    return to_vector<double>(grad(sum(tanh(linear(x, weight))), {x})[0]);
  };
  const std::vector<Values> expected = {gradient_at(0), gradient_at(1)};
  std::vector<std::thread> threads;
  std::vector<int> differing(2, 0);
  for (unsigned number = 0; number < 2; ++number) {
    threads.emplace_back([&, number] {
      for (int repeat = 0; repeat < 100; ++repeat) differing[number] += gradient_at(number) != expected[number] ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(differing == std::vector<int>{0, 0});
  CHECK_FALSE(weight.grad().defined());
}

}  // namespace
}  // namespace fanout::testing
