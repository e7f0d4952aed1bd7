// SPDX-License-Identifier: Apache-2.0
// Training under Autocast: parameters, their gradients and the optimizer stay f32.
#include <catch2/catch.hpp>
#include <cmath>

#include "runtime/autograd/autocast.h"
#include "runtime/nn/linear.h"
#include "runtime/nn/module.h"
#include "runtime/nn/move.h"
#include "runtime/ops/activation.h"
#include "runtime/ops/loss.h"
#include "runtime/optim/sgd.h"
#include "runtime/tensor/copy.h"
#include "runtime/tensor/random.h"

using namespace fanout;
using Catch::Matchers::Contains;

namespace {

struct Mlp {
  Linear fc1{8, 32}, fc2{32, 4};
  void visit(Visitor& member) {
    member("fc1", fc1);
    member("fc2", fc2);
  }
  Tensor operator()(const Tensor& x) { return fc2(relu(fc1(x))); }
};

/// Rows of ±1 in the first four columns; the label is the column that is +1.
struct Batch {
  Tensor rows, labels;

  Batch() {
    std::vector<float> values;
    std::vector<std::int64_t> numbers;
    for (int row = 0; row < 64; ++row) {
      const int label = row * 7 % 4;
      for (int column = 0; column < 8; ++column) {
        values.push_back(column == label ? 1 : column < 4 ? -1 : std::sin(static_cast<float>(row * 8 + column)));
      }
      numbers.push_back(label);
    }
    rows = copied_to(from_vector(values, {64, 8}), Device(0));
    labels = copied_to(from_vector(numbers, {64}), Device(0));
  }
};

/// The losses of 40 steps.
std::vector<double> losses_of_training(Mlp& mlp, const Batch& batch, bool autocast) {
  Sgd optimizer(parameters(mlp), {.learning_rate = 0.1, .momentum = 0.9});
  std::vector<double> losses;
  for (int step = 0; step < 40; ++step) {
    optimizer.zero_grad();
    Tensor loss;
    {
      const Autocast scope(DType::bf16, autocast);
      const Tensor logits = mlp(batch.rows);
      CHECK(logits.dtype() == (autocast ? DType::bf16 : DType::f32));
      loss = cross_entropy(logits, batch.labels);
    }
    loss.backward();
    optimizer.step();
    losses.push_back(item(loss));
  }
  return losses;
}

}  // namespace

TEST_CASE("an MLP of two layers trains under Autocast as in f32, with f32 parameters and gradients") {
  manual_seed(3);
  Mlp in_f32;
  to(in_f32, Device(0));
  Mlp mixed = clone(in_f32);
  const Batch batch;
  const auto expected = losses_of_training(in_f32, batch, false), losses = losses_of_training(mixed, batch, true);
  CHECK(losses.front() > 1);
  CHECK(losses.back() < 0.05);
  CHECK(losses != expected);
  for (std::size_t step = 0; step < losses.size(); ++step) {
    CAPTURE(step);
    CHECK(std::abs(losses[step] - expected[step]) < 0.02);
  }
  for (const Tensor& parameter : parameters(mixed)) {
    CHECK(parameter.dtype() == DType::f32);
    CHECK(parameter.grad().dtype() == DType::f32);
  }
}

TEST_CASE("parameters and optimizers refuse bf16 and name the way") {
  CHECK_THROWS_WITH(Parameter({2}, DType::bf16), Contains("bf16 [2] on cpu; parameters are f32 or f64") &&
                                                     Contains("run the forward under Autocast"));
  CHECK_THROWS_WITH(Parameter(zeros({2}, DType::bf16, Device(0))), Contains("bf16 [2] on cuda:0"));
  CHECK_THROWS_WITH(Linear(3, 2, true, DType::bf16), Contains("run the forward under Autocast"));
  const Tensor leaf = zeros({2}, DType::bf16, Device(0));
  CHECK_NOTHROW(leaf.set_requires_grad());
  CHECK_THROWS_WITH(Sgd({leaf}, {.learning_rate = 0.1}), Contains("f32 or f64 without gaps is needed"));
}
