// SPDX-License-Identifier: Apache-2.0
// Hooks around a module's call.
#include <catch2/catch.hpp>

#include <atomic>
#include <thread>

#include "runtime/nn/activation.h"
#include "runtime/nn/hooked.h"
#include "runtime/nn/linear.h"
#include "runtime/nn/move.h"
#include "runtime/nn/sequential.h"
#include "runtime/nn/state_dict.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/tensor/copy.h"

using namespace fanout;

namespace {

using Values = std::vector<double>;

Tensor on_device(const Values& values, const Shape& shape) {
  return copied_to(from_vector(values, shape), Device(0));
}

struct Doubler {
  void visit(Visitor&) {}
  Tensor operator()(const Tensor& x) { return x * 2; }
};

struct Blend {
  Parameter share{from_vector<double>({0.5}, {1})};
  void visit(Visitor& member) { member("share", share); }
  Tensor operator()(const Tensor& a, const Tensor& b, double scale) { return (a + b * share) * scale; }
};

struct Net {
  Hooked<Linear> first{Linear(3, 4, true, DType::f64)};
  Linear second{4, 2, true, DType::f64};
  void visit(Visitor& member) {
    member("first", first);
    member("second", second);
  }
  Tensor operator()(const Tensor& x) { return second(first(x)); }
};

struct PlainNet {
  Linear first{3, 4, true, DType::f64}, second{4, 2, true, DType::f64};
  void visit(Visitor& member) {
    member("first", first);
    member("second", second);
  }
  Tensor operator()(const Tensor& x) { return second(first(x)); }
};

}  // namespace

TEST_CASE("hooks see the module, its argument and its result, in the order of registration") {
  Hooked hooked{Doubler()};
  std::vector<std::string> order;
  std::vector<double> seen;
  const auto note = [&](const std::string& what, const Tensor& tensor) {
    order.push_back(what);
    seen.push_back(item(tensor));
  };
  hooked.after([&](Doubler&, const Tensor& x, const Tensor& y) { note("after with x", x), note("after with y", y); });
  hooked.before([&](Doubler&, const Tensor& x) { note("before", x); });
  hooked.before([&](Doubler& module, const Tensor&) { order.push_back(&module == &hooked.module ? "same" : "other"); });
  CHECK(item(hooked(on_device({3}, {1}))) == 6);
  CHECK(order == std::vector<std::string>{"before", "same", "after with x", "after with y"});
  CHECK(seen == Values{3, 3, 6});
}

TEST_CASE("hooks may put other tensors in the place of the argument and of the result") {
  Hooked hooked{Doubler()};
  hooked.before([](Doubler&, Tensor& x) { x = x + 1; });
  hooked.after([](Doubler&, const Tensor&, Tensor& y) { y = y * 10; });
  hooked.after([](Doubler&, const Tensor& x, Tensor& y) { y = y + x; });
  const Tensor x = on_device({3}, {1});
  CHECK(item(hooked(x)) == 84);  // (3 + 1) * 2 * 10 + 4
  CHECK(item(x) == 3);
}

TEST_CASE("a module of several arguments is hooked with its signature") {
  Hooked<Blend, Tensor(const Tensor&, const Tensor&, double)> hooked{Blend()};
  to(hooked, Device(0));
  double scale_seen = 0;
  hooked.before([&](Blend&, const Tensor&, const Tensor&, double& scale) {
    scale_seen = scale;
    scale = 4;
  });
  int calls = 0;
  hooked.after([&](Blend&, const Tensor&, const Tensor& b, double scale, const Tensor& result) {
    ++calls;
    CHECK(item(b) == 6);
    CHECK(scale == 4);
    CHECK(item(result) == 20);  // (2 + 6 / 2) * 4
  });
  CHECK(item(hooked(on_device({2}, {1}), on_device({6}, {1}), 3.0)) == 20);
  CHECK(scale_seen == 3);
  CHECK(calls == 1);
}

TEST_CASE("a removed hook is not called, also where it removes itself or a later one") {
  Hooked hooked{Doubler()};
  int once_calls = 0, later_calls = 0, after_calls = 0;
  HookHandle once, later;
  once = hooked.before([&](Doubler&, const Tensor&) {
    ++once_calls;
    once.remove();
    later.remove();
  });
  later = hooked.before([&](Doubler&, const Tensor&) { ++later_calls; });
  const HookHandle after = hooked.after([&](Doubler&, const Tensor&, const Tensor&) { ++after_calls; });
  hooked(on_device({1}, {1}));
  hooked(on_device({1}, {1}));
  after.remove();
  after.remove();
  hooked(on_device({1}, {1}));
  CHECK(once_calls == 1);
  CHECK(later_calls == 0);
  CHECK(after_calls == 2);
}

TEST_CASE("names, state, mode and places pass through to the module") {
  Net net;
  PlainNet plain;
  load_state_dict(plain, state_dict(net));
  std::vector<std::string> names;
  for (const NamedTensor& named : named_parameters(net)) names.push_back(named.name);
  CHECK(names == std::vector<std::string>{"first.weight", "first.bias", "second.weight", "second.bias"});
  CHECK(unvisited(net).empty());
  to(net, Device(0));
  to(plain, Device(0));
  CHECK(net.first.module.weight.device() == Device(0));
  const Tensor x = on_device({1, 2, 3}, {1, 3});
  CHECK(to_vector<double>(net(x)) == to_vector<double>(plain(x)));
}

TEST_CASE("a member that the module's visit leaves out is found through the wrapper") {
  struct Forgetful {
    Linear kept{2, 2}, forgotten{2, 2};
    void visit(Visitor& member) { member("kept", kept); }
    Tensor operator()(const Tensor& x) { return forgotten(kept(x)); }
  };
  const Hooked hooked{Forgetful()};
  CHECK(unvisited(hooked) == "member 2 (fanout::Linear)");
}

TEST_CASE("a hooked layer in a Sequential shows its own output") {
  Hooked<Linear> linear{Linear(2, 2, false, DType::f64)};
  copy(linear.module.weight, from_vector<double>({1, 0, 0, -1}, {2, 2}));
  Values seen;
  linear.after([&](Linear&, const Tensor&, const Tensor& y) { seen = to_vector<double>(y); });
  Sequential net(linear, Relu());
  to(net, Device(0));
  CHECK(to_vector<double>(net(on_device({3, 4}, {1, 2}))) == Values{3, 0});
  CHECK(seen == Values{3, -4});
}

TEST_CASE("copies have the same hooks, and each removes only its own") {
  int calls = 0;
  Hooked original{Doubler()};
  const HookHandle handle = original.before([&](Doubler&, const Tensor&) { ++calls; });
  Hooked<Doubler> copy = original;
  const Tensor x = on_device({1}, {1});
  copy(x);
  CHECK(calls == 1);
  const HookHandle in_copy = copy.before([&](Doubler&, const Tensor&) { calls += 100; });
  copy(x);
  original(x);
  CHECK(calls == 103);
  handle.remove();
  original(x);
  CHECK(calls == 103);
  copy(x);
  CHECK(calls == 204);
  in_copy.remove();
  copy(x);
  CHECK(calls == 205);
}

TEST_CASE("copies in several threads add and remove hooks beside each other") {
  constexpr int kThreads = 4, kCalls = 100;
  std::atomic<int> shared_calls{0}, own_calls{0};
  Hooked original{Doubler()};
  original.after([&](Doubler&, const Tensor&, const Tensor&) { ++shared_calls; });
  std::vector<std::thread> threads;
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, replica = original]() mutable {
      const Tensor x = on_device({1}, {1});
      for (int call = 0; call < kCalls; ++call) {
        const HookHandle own = replica.before([&](Doubler&, const Tensor&) { ++own_calls; });
        replica(x);
        own.remove();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(shared_calls == kThreads * kCalls);
  CHECK(own_calls == kThreads * kCalls);
}

TEST_CASE("a hook's changes are part of the graph") {
  Hooked hooked{Linear(2, 1, false, DType::f64)};
  to(hooked, Device(0));
  hooked.after([](Linear&, const Tensor&, Tensor& y) { y = y * 3; });
  hooked(on_device({5, 7}, {1, 2})).backward();
  CHECK(to_vector<double>(hooked.module.weight.grad()) == Values{15, 21});
}
