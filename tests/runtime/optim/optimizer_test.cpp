// SPDX-License-Identifier: Apache-2.0
// Optimizers against a second implementation of torch's rules in double, and what they do around a step.
#include <catch2/catch.hpp>
#include <functional>
#include <memory>

#include "runtime/autograd/accumulate.h"
#include "runtime/autograd/node.h"
#include "runtime/nn/linear.h"
#include "runtime/nn/move.h"
#include "runtime/tensor/copy.h"
#include "tests/runtime/optim/torch_rules.h"

using namespace fanout;
using namespace fanout::testing;
using Catch::Matchers::Contains;

namespace {

struct Net {
  Linear a, b, c;
  explicit Net(DType dtype = DType::f64) : a(3, 5, true, dtype), b(5, 7, true, dtype), c(7, 2, false, dtype) {}
  void visit(Visitor& member) {
    member("a", a);
    member("b", b);
    member("c", c);
  }
};

// Any numbers of both signs that change with parameter, element and step.
double gradient_value(std::size_t parameter, std::size_t element, int step) {
  return std::sin(1.7 * static_cast<double>(parameter) + 0.9 * static_cast<double>(element) + 0.37 * step) *
         (1 + static_cast<double>(element % 3));
}

void give_gradient(const Tensor& parameter, std::size_t number, int step) {
  std::vector<double> values(static_cast<std::size_t>(parameter.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = gradient_value(number, i, step);
  copy(gradient_sink(parameter).place(), from_vector(values, parameter.shape()));
  gradient_sink(parameter).set_present();
}

// A copy of every parameter element with its own rule.
template <class Rule>
class Oracle {
 public:
  Oracle(const std::vector<Tensor>& parameters, Rule rule) {
    for (const Tensor& parameter : parameters) {
      values_.push_back(to_vector<double>(parameter));
      rules_.emplace_back(values_.back().size(), rule);
    }
  }
  void step(std::size_t number, int step) {
    for (std::size_t i = 0; i < values_[number].size(); ++i) {
      values_[number][i] = rules_[number][i](values_[number][i], gradient_value(number, i, step));
    }
  }
  void set_learning_rate(double learning_rate) {
    for (auto& rules : rules_) {
      for (Rule& rule : rules) rule.options.learning_rate = learning_rate;
    }
  }
  double largest_error(const std::vector<Tensor>& parameters) const {
    double error = 0;
    for (std::size_t number = 0; number < values_.size(); ++number) {
      const std::vector<double> found = to_vector<double>(parameters[number]);
      for (std::size_t i = 0; i < found.size(); ++i) error = std::max(error, std::abs(found[i] - values_[number][i]));
    }
    return error;
  }

 private:
  std::vector<std::vector<double>> values_;
  std::vector<std::vector<Rule>> rules_;
};

// 20 steps with changing gradients. Parameter 2 has none in every third step; the module moves at steps 7 and 12.
template <class Rule>
double run(const Rule& rule, const std::function<std::unique_ptr<Optimizer>(std::vector<Tensor>)>& make) {
  Net net;
  const auto optimizer = make(parameters(net));  // before the module goes to a device
  to(net, Device(0));
  const std::vector<Tensor> trained = parameters(net);
  Oracle<Rule> oracle(trained, rule);
  for (int step = 0; step < 20; ++step) {
    if (step == 7) to(net, Device(1));
    if (step == 12) {
      to(net, Device::host());
      to(net, Device(2));
    }
    if (step == 15) {
      optimizer->set_learning_rate(0.002);
      oracle.set_learning_rate(0.002);
    }
    optimizer->zero_grad();
    for (std::size_t number = 0; number < trained.size(); ++number) {
      if (number == 2 && step % 3 == 1) continue;
      give_gradient(trained[number], number, step);
      oracle.step(number, step);
    }
    optimizer->step();
  }
  return oracle.largest_error(trained);
}

double run_sgd(const SgdOptions& options) {
  return run(SgdRule{.options = options},
             [&](std::vector<Tensor> list) { return std::make_unique<Sgd>(std::move(list), options); });
}

constexpr double kTolerance = 1e-12;

}  // namespace

TEST_CASE("Sgd follows torch over 20 steps, with unused parameters and moves between devices") {
  CHECK(run_sgd({.learning_rate = 0.1}) < kTolerance);
  CHECK(run_sgd({.learning_rate = 0.1, .weight_decay = 0.03}) < kTolerance);
  CHECK(run_sgd({.learning_rate = 0.1, .momentum = 0.9}) < kTolerance);
  CHECK(run_sgd({.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.25, .weight_decay = 0.03}) < kTolerance);
  CHECK(run_sgd({.learning_rate = 0.1, .momentum = 0.8, .weight_decay = 0.03, .nesterov = true}) < kTolerance);
}

TEST_CASE("Adam and AdamW follow torch over 20 steps, each parameter with its own step count") {
  const AdamOptions options{.learning_rate = 0.01, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.05};
  CHECK(run(AdamRule{.options = options},
            [&](std::vector<Tensor> list) { return std::make_unique<Adam>(std::move(list), options); }) < kTolerance);
  CHECK(run(AdamRule{}, [](std::vector<Tensor> list) { return std::make_unique<Adam>(std::move(list)); }) < kTolerance);
  CHECK(run(AdamRule{.options = {.weight_decay = 1e-2}, .decoupled = true},
            [](std::vector<Tensor> list) { return std::make_unique<AdamW>(std::move(list)); }) < kTolerance);
}

TEST_CASE("the defaults are torch's") {
  const std::vector<Tensor> list{Parameter(Shape{1})};
  CHECK(Sgd(list).learning_rate() == 1e-3);
  CHECK(Adam(list).learning_rate() == 1e-3);
  CHECK(AdamWOptions().weight_decay == 1e-2);
  CHECK(AdamOptions().weight_decay == 0);
}

TEST_CASE("f32 parameters, and f32 beside f64 in one optimizer, are updated") {
  Net single(DType::f32), both(DType::f64);
  to(single, Device(0));
  to(both, Device(0));
  std::vector<Tensor> list = parameters(single);
  const std::vector<Tensor> more = parameters(both);
  list.insert(list.end(), more.begin(), more.end());
  Sgd optimizer(list, {.learning_rate = 0.5});
  std::vector<double> before;
  for (const Tensor& parameter : list)
    before.push_back(dispatch_floating(parameter.dtype(), "", [&]<class Tag>(Tag) {
      const auto ones = std::vector<typename Tag::type>(static_cast<std::size_t>(parameter.elements()), 1);
      copy(gradient_sink(parameter).place(), from_vector(ones, parameter.shape()));
      gradient_sink(parameter).set_present();
      return static_cast<double>(to_vector<typename Tag::type>(parameter).back());
    }));
  optimizer.step();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const double after = dispatch_floating(list[i].dtype(), "", [&]<class Tag>(Tag) {
      return static_cast<double>(to_vector<typename Tag::type>(list[i]).back());
    });
    CHECK(after == Approx(before[i] - 0.5).margin(1e-6));
  }
}

TEST_CASE("one optimizer updates modules on several devices, flat or not") {
  Net on_zero, on_one;
  to(on_zero, Device(0));
  to(on_one, Device(1));
  const Parameter alone(zeros({3}, DType::f64, Device(1)));
  std::vector<Tensor> list = parameters(on_one);
  const std::vector<Tensor> more = parameters(on_zero);
  list.push_back(alone);
  list.insert(list.end(), more.begin(), more.end());
  Oracle<AdamRule> oracle(list, AdamRule{});
  Adam optimizer(list);
  for (int step = 0; step < 3; ++step) {
    for (std::size_t number = 0; number < list.size(); ++number) {
      give_gradient(list[number], number, step);
      oracle.step(number, step);
    }
    optimizer.step();
  }
  CHECK(oracle.largest_error(list) < kTolerance);
}

TEST_CASE("a step counts a write on what it updates, and leaves alone what has no gradient") {
  Net net;
  to(net, Device(0));
  const std::vector<Tensor> trained = parameters(net);
  Sgd optimizer(trained, {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1});
  give_gradient(trained[1], 1, 0);
  const std::uint32_t used = trained[1].version(), unused = trained[0].version();
  const std::vector<double> before = to_vector<double>(trained[0]);
  optimizer.step();
  CHECK(trained[1].version() == used + 1);
  CHECK(trained[0].version() == unused);
  CHECK(to_vector<double>(trained[0]) == before);
}

TEST_CASE("zero_grad forgets gradients") {
  Net net;
  to(net, Device(0));
  Sgd optimizer(parameters(net));
  give_gradient(net.a.weight, 0, 0);
  optimizer.zero_grad();
  CHECK_FALSE(net.a.weight.grad().defined());
}

TEST_CASE("gaps of the flat buffers stay zero under every rule") {
  Net net;
  to(net, Device(0));
  const std::vector<Tensor> trained = parameters(net);
  AdamW adam(trained);
  Sgd sgd(trained, {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
  for (int step = 0; step < 3; ++step) {
    for (std::size_t number = 0; number < trained.size(); ++number) give_gradient(trained[number], number, step);
    adam.step();
    sgd.step();
  }
  const FlatLayout layout(trained);
  const auto doubles = static_cast<std::int64_t>(layout.bytes() / sizeof(double));
  const std::vector<double> all = to_vector<double>(strided_view(trained.back(), {doubles}, {1}, 0));
  for (std::size_t i = 0; i < trained.size(); ++i) {
    for (std::size_t at = (layout.offset(i) + trained[i].bytes()) / 8; at < layout.end(i) / 8; ++at)
      CHECK(all[at] == 0);
  }
}

TEST_CASE("bad options and bad parameters are refused with what is wrong") {
  const std::vector<Tensor> list{Parameter(Shape{2})};
  const auto text = [](auto make) {
    try {
      make();
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("nothing thrown");
  };
  CHECK_THAT(text([&] { Sgd(list, {.learning_rate = -1}); }), Contains("Sgd: invalid learning rate -1"));
  CHECK_THAT(text([&] { Sgd(list, {.learning_rate = std::nan("")}); }), Contains("learning rate"));
  CHECK_THAT(text([&] { Sgd(list, {.momentum = -0.5}); }), Contains("invalid momentum -0.5"));
  CHECK_THAT(text([&] { Sgd(list, {.weight_decay = -1}); }), Contains("weight_decay"));
  CHECK_THAT(text([&] { Sgd(list, {.nesterov = true}); }), Contains("requires a momentum"));
  CHECK_THAT(text([&] { Sgd(list, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}); }),
             Contains("zero dampening"));
  CHECK_THAT(text([&] { Adam(list, {.beta1 = 1}); }), Contains("Adam: invalid beta1 1"));
  CHECK_THAT(text([&] { Adam(list, {.beta2 = -0.1}); }), Contains("beta2"));
  CHECK_THAT(text([&] { AdamW(list, {.epsilon = -1}); }), Contains("AdamW: invalid epsilon"));
  CHECK_THAT(text([&] { Sgd({}); }), Contains("empty parameter list"));
  CHECK_THAT(text([&] { Sgd({list[0], list[0]}); }), Contains("parameter 1 was given twice"));
  CHECK_THAT(text([&] { Sgd({Tensor()}); }), Contains("undefined"));
  CHECK_THAT(text([&] { Sgd({zeros({2}, DType::i64, Device(0))}); }), Contains("i64"));
  CHECK_THAT(text([&] { Sgd(list).set_learning_rate(-2); }), Contains("learning rate -2"));
}

TEST_CASE("the result of an operator cannot be optimized") {
  const Parameter a(zeros({2}, DType::f32, Device(0))), b(zeros({2}, DType::f32, Device(0)));
  CHECK_THROWS_WITH(Sgd({add(a, b)}), Contains("only leaves"));
}
