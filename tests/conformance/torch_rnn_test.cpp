// SPDX-License-Identifier: Apache-2.0
// What torch's own tests ask of a recurrent network through DataParallel, with an LSTM made of this runtime's
// operators.
#include <catch2/catch.hpp>
#include <utility>

#include "runtime/autograd/backward.h"
#include "runtime/ops/activation.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/ops/shape.h"
#include "runtime/optim/sgd.h"
#include "runtime/parallel/data_parallel.h"
#include "tests/conformance/comparison.h"

using namespace fanout;
using namespace fanout::test;

namespace {

// One direction of a long short-term memory: gates input, forget, cell, output (Hochreiter and Schmidhuber, 1997).
struct LstmDirection {
  Parameter weight_ih, weight_hh, bias_ih, bias_hh;  // [4 hidden, in], [4 hidden, hidden], [4 hidden], [4 hidden]
  bool backwards = false;

  LstmDirection(std::int64_t in, std::int64_t hidden, bool runs_backwards)
      : weight_ih(uniform({4 * hidden, in})),
        weight_hh(uniform({4 * hidden, hidden})),
        bias_ih(uniform({4 * hidden})),
        bias_hh(uniform({4 * hidden})),
        backwards(runs_backwards) {}
  static Tensor uniform(const Shape& shape) {
    std::vector<double> values(static_cast<std::size_t>(shape.elements()));
    for (double& value : values) value = host_generator().uniform(-0.5, 0.5);
    return from_vector(values, shape);
  }

  void visit(Visitor& member) {
    member("weight_ih", weight_ih);
    member("weight_hh", weight_hh);
    member("bias_ih", bias_ih);
    member("bias_hh", bias_hh);
  }

  struct State {
    Tensor output, hidden, cell;  // [batch, time, hidden], [batch, hidden], [batch, hidden]
  };

  State operator()(const Tensor& x) const {  // [batch, time, in]
    const std::int64_t batch = x.size(0), steps = x.size(1), size = weight_hh.size(1);
    State state{{}, zeros({batch, size}, x.dtype(), x.device()), zeros({batch, size}, x.dtype(), x.device())};
    std::vector<Tensor> outputs(static_cast<std::size_t>(steps));
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::int64_t time = backwards ? steps - 1 - step : step;
      const Tensor now = reshape(narrow(x, 1, time, 1), {batch, x.size(2)});
      const Tensor gates = linear(now, weight_ih, bias_ih) + linear(state.hidden, weight_hh, bias_hh);
      const auto gate = [&](std::int64_t number) { return narrow(gates, 1, number * size, size); };
      state.cell = sigmoid(gate(1)) * state.cell + sigmoid(gate(0)) * tanh(gate(2));
      state.hidden = sigmoid(gate(3)) * tanh(state.cell);
      outputs[static_cast<std::size_t>(time)] = reshape(state.hidden, {batch, 1, size});
    }
    state.output = concat(outputs, 1);
    return state;
  }
};

using LstmResult = std::pair<Tensor, std::pair<Tensor, Tensor>>;

struct BidirectionalLstm {
  LstmDirection forwards{6, 3, false}, backwards{6, 3, true};

  void visit(Visitor& member) {
    member("forwards", forwards);
    member("backwards", backwards);
  }
  /// [batch, time, 6] → [batch, time, 6], and the last hidden and cell states [batch, 2, 3].
  LstmResult operator()(const Tensor& x) const {
    const LstmDirection::State first = forwards(x), second = backwards(x);
    const auto pair_of = [](const Tensor& a, const Tensor& b) {
      return concat({reshape(a, {a.size(0), 1, a.size(1)}), reshape(b, {b.size(0), 1, b.size(1)})}, 1);
    };
    return {concat({first.output, second.output}, 2),
            {pair_of(first.hidden, second.hidden), pair_of(first.cell, second.cell)}};
  }
};

}  // namespace

TEST_CASE("a bidirectional LSTM runs without graph, and one step of SGD with rate 10 equals the plain module's",
          "[torch 9.1.2 test_data_parallel_rnn]") {
  BidirectionalLstm alone = seeded_on<BidirectionalLstm>(Device(0)), wrapped = clone(alone);
  DataParallel parallel(wrapped);
  {
    const NoGrad no_graph;
    for (const Device home : {Device(0), Device::host()}) {
      const Tensor x = numbers_on(home, {2, 4, 6});
      const auto [output, last] = parallel(x);
      CHECK(output.shape() == Shape{2, 4, 6});
      CHECK(last.second.shape() == Shape{2, 2, 3});
      CHECK(difference(output, alone(to(x, Device(0))).first) < kTolerance);
    }
  }
  const auto step = [](BidirectionalLstm& module, auto&& call) {
    Sgd sgd(parameters(module), {.learning_rate = 10});
    const Tensor output = call(full({4, 4, 6}, 1, DType::f64, Device(0))).first;
    mse_loss(output, zeros(output.shape(), DType::f64, Device(0))).backward();
    sgd.step();
  };
  const std::vector<double> before = values_of(wrapped.backwards.weight_ih);
  step(alone, alone);
  step(wrapped, parallel);
  const std::vector<Tensor> expected = parameters(alone), actual = parameters(wrapped);
  for (std::size_t index = 0; index < expected.size(); ++index) {
    CHECK(difference(actual[index], expected[index]) < kTolerance);
  }
  CHECK(largest_difference(values_of(wrapped.backwards.weight_ih), before) > 1e-3);
}
