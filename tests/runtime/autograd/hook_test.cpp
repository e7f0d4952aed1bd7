// SPDX-License-Identifier: Apache-2.0
// Hooks on the gradients of leaves and of results.
#include <catch2/catch.hpp>

#include <thread>

#include "runtime/autograd/hook.h"
#include "runtime/nn/linear.h"
#include "runtime/nn/move.h"
#include "runtime/ops/activation.h"
#include "runtime/ops/loss.h"
#include "runtime/ops/matmul.h"
#include "runtime/ops/shape.h"
#include "tests/runtime/gradcheck.h"

namespace fanout::testing {
namespace {

using Catch::Matchers::Contains;
using Values = std::vector<double>;

Tensor leaf(const Values& values) {
  return on_device(values, {static_cast<std::int64_t>(values.size())}).set_requires_grad();
}

// A hook that notes what it sees and changes nothing.
TensorHook noting(std::vector<Values>& seen) {
  return [&seen](const Tensor& gradient) {
    seen.push_back(to_vector<double>(gradient));
    return Tensor();
  };
}

TEST_CASE("a hook on a leaf sees the sum of one backward once, and what it returns is added to the gradient") {
  const Tensor x = leaf({1, 2});
  sum(x * 3).backward();
  std::vector<Values> seen;
  register_hook(x, [&](const Tensor& gradient) {
    seen.push_back(to_vector<double>(gradient));
    return gradient * 2;
  });
  sum(x * 2 + x * x).backward();
  CHECK(seen == std::vector<Values>{{4, 6}});  // 2 + 2 x
  CHECK(gradient_of(x) == Values{11, 15});     // 3 + 2 (2 + 2 x)
}

TEST_CASE("a hook that returns nothing leaves the gradient as it is") {
  const Tensor x = leaf({1, 2}), y = x * x;
  std::vector<Values> of_leaf, of_result;
  register_hook(x, noting(of_leaf));
  register_hook(y, noting(of_result));
  sum(y * 5).backward();
  CHECK(of_result == std::vector<Values>{{5, 5}});
  CHECK(of_leaf == std::vector<Values>{{10, 20}});
  CHECK(gradient_of(x) == Values{10, 20});
}

TEST_CASE("a hook on a result changes what goes on to its inputs, after all branches have been added") {
  const Tensor x = leaf({2}), middle = x * 3;  // 6
  std::vector<Values> seen;
  register_hook(middle, noting(seen));
  register_hook(middle, [](const Tensor& gradient) { return gradient * 0.5; });
  const Tensor left = middle * 5, right = square(middle);
  sum(left + right * left).backward();
  CHECK(seen == std::vector<Values>{{545}});  // 5 + 15 m²
  CHECK(gradient_of(x) == Values{817.5});     // 545 / 2 * 3
}

TEST_CASE("hooks run in the order of their registration, each on what the one before returned") {
  const Tensor x = leaf({1}), y = leaf({1});
  register_hook(x, [](const Tensor& gradient) { return gradient + 1; });
  register_hook(x, [](const Tensor& gradient) { return gradient * 10; });
  register_hook(y, [](const Tensor& gradient) { return gradient * 10; });
  register_hook(y, [](const Tensor& gradient) { return gradient + 1; });
  sum(x * 3 + y * 3).backward();
  CHECK(gradient_of(x) == Values{40});
  CHECK(gradient_of(y) == Values{31});
}

TEST_CASE("a removed hook is not called, however and how often it is removed") {
  const Tensor x = leaf({1});
  int first = 0, second = 0, third = 0;
  HookHandle once, later;
  const HookHandle before = register_hook(x, [&](const Tensor&) { return ++third, Tensor(); });
  once = register_hook(x, [&](const Tensor&) {
    ++first;
    once.remove();
    later.remove();  // this one has not run yet
    return Tensor();
  });
  later = register_hook(x, [&](const Tensor&) { return ++second, Tensor(); });
  before.remove();
  before.remove();
  HookHandle().remove();
  sum(x * 2).backward();
  sum(x * 2).backward();
  CHECK(first == 1);
  CHECK(second == 0);
  CHECK(third == 0);
  CHECK(gradient_of(x) == Values{4});
}

TEST_CASE("a handle that outlives its tensor removes nothing") {
  HookHandle handle;
  {
    const Tensor x = leaf({1});
    handle = register_hook(x * 2, [](const Tensor&) { return Tensor(); });
  }
  CHECK_NOTHROW(handle.remove());
}

TEST_CASE("hooks are removed by one thread while another one runs backward") {
  const Tensor x = leaf({1});
  constexpr int kHooks = 200;
  std::atomic<int> calls{0};
  std::vector<HookHandle> handles;
  for (int i = 0; i < kHooks; ++i) {
    handles.push_back(register_hook(x, [&](const Tensor&) { return ++calls, Tensor(); }));
  }
  std::atomic<bool> removed{false};
  std::thread remover([&] {
    for (const HookHandle& handle : handles) handle.remove();
    removed = true;
  });
  int passes = 0;
  while (!removed) {
    sum(x * 2).backward();
    ++passes;
  }
  remover.join();
  CHECK(calls <= passes * kHooks);
  const int until_now = calls;
  sum(x * 2).backward();
  CHECK(calls == until_now);
  CHECK(gradient_of(x) == Values{2.0 * (passes + 1)});
}

TEST_CASE("a hook is called in each backward through a kept graph") {
  const Tensor x = leaf({0.5}), hidden = tanh(x), y = sum(hidden);
  std::vector<Values> of_leaf, of_result;
  register_hook(x, noting(of_leaf));
  register_hook(hidden, noting(of_result));
  backward(y, {}, {.retain_graph = true});
  y.backward();
  const double slope = 1 - std::tanh(0.5) * std::tanh(0.5);
  CHECK(of_result == std::vector<Values>{{1}, {1}});
  REQUIRE(of_leaf.size() == 2);
  require_close(of_leaf[0], {slope});
  require_close(of_leaf[1], {slope});
  require_close(gradient_of(x), {2 * slope});
}

TEST_CASE("a loss that begins backward shows its hook the gradient 1") {
  const Tensor logits = leaf_of(random_tensor({2, 3}, 1)), labels = on_device<std::int64_t>({0, 2}, {2});
  cross_entropy(logits, labels).backward();
  const Values whole = gradient_of(logits);
  logits.clear_grad();
  const Tensor loss = cross_entropy(logits, labels);
  std::vector<Values> seen;
  register_hook(loss, noting(seen));
  register_hook(loss, [](const Tensor& gradient) { return gradient * 2; });
  loss.backward();
  CHECK(seen == std::vector<Values>{{1}});
  const Values doubled = gradient_of(logits);
  for (std::size_t i = 0; i < whole.size(); ++i) CHECK(doubled[i] == 2 * whole[i]);
}

TEST_CASE("what a hook keeps is not overwritten by operators that reuse memory") {
  const Tensor x = leaf({-1, 2});
  Tensor kept_first, kept_second;
  const Tensor first = tanh(x), second = relu(first * 1);
  register_hook(first, [&](const Tensor& gradient) { return kept_first = gradient, Tensor(); });
  register_hook(second, [&](const Tensor& gradient) { return kept_second = gradient, Tensor(); });
  sum(second * 3).backward();
  CHECK(to_vector<double>(kept_second) == Values{3, 3});
  CHECK(to_vector<double>(kept_first) == Values{0, 3});
}

TEST_CASE("a returned gradient of another shape, dtype or device is refused and named") {
  const Tensor x = leaf({1, 2}), hidden = tanh(x);
  const auto refuses = [&](const Tensor& on, const Tensor& returned, const std::string& text) {
    const HookHandle handle = register_hook(on, [returned](const Tensor&) { return returned; });
    const Tensor y = sum(hidden * x);
    CHECK_THROWS_AS(backward(y, {}, {.retain_graph = true}), InvalidArgument);
    CHECK_THROWS_WITH(backward(y, {}, {.retain_graph = true}), Contains(text));
    handle.remove();
    x.clear_grad();
    backward(y, {}, {.retain_graph = true});
  };
  refuses(x, on_device<double>({1}, {1}),
          "register_hook: a hook on a gradient of leaf got f64 [2] on cuda:0 and returned f64 [1] on cuda:0; shape, "
          "dtype and device must agree (an undefined tensor leaves the gradient as it is)");
  refuses(hidden, on_device<float>({1, 2}, {2}), "of tanh got f64 [2] on cuda:0 and returned f32 [2] on cuda:0");
  refuses(x, on_device<double>({1, 2}, {2}, Device(1)), "and returned f64 [2] on cuda:1");
}

TEST_CASE("a tensor without a gradient takes no hook") {
  const auto nothing = [](const Tensor&) { return Tensor(); };
  CHECK_THROWS_AS(register_hook(Tensor(), nothing), InvalidArgument);
  CHECK_THROWS_WITH(register_hook(on_device<double>({1}, {1}), nothing),
                    "register_hook: f64 [1] on cuda:0 requires no gradient, so the hook would never run; use "
                    "set_requires_grad on a leaf");
}

TEST_CASE("hooks build no graph, but in a backward with create_graph they do") {
  const Tensor x = leaf({2}), y = square(x);
  std::vector<bool> modes;
  register_hook(x, [&](const Tensor&) { return modes.push_back(grad_enabled()), Tensor(); });
  register_hook(y, [&](const Tensor&) { return modes.push_back(grad_enabled()), Tensor(); });
  const Tensor z = sum(y);
  backward(z, {}, {.retain_graph = true});
  backward(z, {}, {.create_graph = true});
  CHECK(modes == std::vector<bool>{false, false, true, true});
  x.clear_grad();
}

TEST_CASE("create_graph differentiates through hooks on leaves and on results") {
  const Function objective = [](const Inputs& at) {
    const Tensor x = at[0].requires_grad() ? at[0] : leaf_of(at[0]);
    const Tensor y = square(x);
    const HookHandle on_result = register_hook(y, [&](const Tensor& gradient) { return gradient * tanh(x); });
    const HookHandle on_leaf = register_hook(x, [&](const Tensor& gradient) { return square(gradient) + x; });
    backward(weighted_sum(y * x), {}, {.create_graph = true});
    const Tensor gradient = x.grad();
    x.clear_grad();
    on_leaf.remove();
    on_result.remove();
    return weighted_sum(gradient);
  };
  compare_gradients(objective, {random_tensor({5}, 3)});
}

TEST_CASE("a leaf used on every device has its hook called once, with the whole sum") {
  const bool on_host = GENERATE(false, true);
  const Tensor x = from_vector<double>({1, 2}, {2});
  const Tensor at = (on_host ? x : copied_to(x, Device(0))).set_requires_grad();
  std::vector<Values> seen;
  std::vector<Device> devices;
  register_hook(at, [&](const Tensor& gradient) {
    seen.push_back(to_vector<double>(gradient));
    devices.push_back(gradient.device());
    return Tensor();
  });
  for (int repeat = 1; repeat <= 10; ++repeat) {
    Tensor total = zeros({}, DType::f64, Device(0));
    for (int device = 0; device < device_count(); ++device) {
      total = total + to(sum(square(to(at, Device(device)))), Device(0));
    }
    total.backward();
  }
  const double count = device_count();
  CHECK(seen == std::vector<Values>(10, {2 * count, 4 * count}));
  CHECK(devices == std::vector<Device>(10, at.device()));
  CHECK(gradient_of(at) == Values{20 * count, 40 * count});
}

TEST_CASE("a parameter's gradient stays in the flat buffer when a hook changes it") {
  Linear layer(3, 2, true, DType::f64);
  to(layer, Device(0));
  const void* const place = gradient_sink(layer.weight).place().raw_data();
  const HookHandle handle = register_hook(layer.weight, [](const Tensor& gradient) { return gradient * 0.25; });
  const Tensor x = on_device<double>({1, 2, 3}, {1, 3});
  sum(layer(x)).backward();
  CHECK(gradient_of(layer.weight) == Values{0.25, 0.5, 0.75, 0.25, 0.5, 0.75});
  CHECK(layer.weight.grad().raw_data() == place);
  CHECK(gradient_of(layer.bias) == Values{1, 1});
  handle.remove();
  sum(layer(x)).backward();
  CHECK(gradient_of(layer.weight) == Values{1.25, 2.5, 3.75, 1.25, 2.5, 3.75});
}

TEST_CASE("a copied list of hooks is a list of its own") {
  HookList<std::function<void(int)>> list;
  CHECK(list.empty());
  int sum_of_calls = 0;
  const HookHandle handle = list.add([&](int value) { sum_of_calls += value; });
  HookList<std::function<void(int)>> copy = list;
  const HookHandle in_copy = copy.add([&](int value) { sum_of_calls += 100 * value; });
  const auto call = [&](const auto& hooks) {
    sum_of_calls = 0;
    hooks.for_each([](const auto& hook) { hook(1); });
    return sum_of_calls;
  };
  CHECK(call(list) == 1);
  CHECK(call(copy) == 101);
  handle.remove();
  CHECK(call(list) == 0);
  CHECK(call(copy) == 101);
  in_copy.remove();
  CHECK(call(copy) == 1);
  CHECK(list.empty());
  CHECK_FALSE(copy.empty());
}

}  // namespace
}  // namespace fanout::testing
