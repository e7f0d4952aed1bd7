// SPDX-License-Identifier: Apache-2.0
// Gradients whose sum is left to the optimizer: whoever looks at one sees the sum, and what the optimizer makes of it
// reaches the replicas. Inputs are small whole numbers, so all sums are exact.
#include <catch2/catch.hpp>

#include <optional>

#include "runtime/ops/arithmetic.h"
#include "runtime/ops/reduce.h"
#include "runtime/ops/shape.h"
#include "runtime/optim/adam.h"
#include "runtime/optim/sgd.h"
#include "runtime/parallel/data_parallel.h"
#include "runtime/tensor/copy.h"
#include "tests/runtime/parallel/test_nets.h"

using namespace fanout;
using namespace fanout::test;

namespace {

constexpr std::int64_t kIn = 300, kOut = 700;  // 820 KiB of weights: several pieces for each of several lanes

// Two layers side by side; the gradient of the sum of the outputs is the sum of the inputs' rows, in every row.
struct Pair {
  Linear left{kIn, kOut, false}, right{kIn, 3, false};
  void visit(Visitor& member) {
    member("left", left);
    member("right", right);
  }
  Tensor operator()(const Tensor& x) const { return sum(left(x)) + sum(right(x)); }
};

// [rows, kIn]: row r has r + 1 + column % 5.
Tensor counting(std::int64_t rows) {
  std::vector<float> values;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < kIn; ++column) values.push_back(static_cast<float>(row + 1 + column % 5));
  }
  return from_vector(values, {rows, kIn});
}

// What every row of a weight's gradient is.
std::vector<float> expected_row(std::int64_t rows) {
  std::vector<float> row;
  for (std::int64_t column = 0; column < kIn; ++column) {
    row.push_back(static_cast<float>(rows * (rows + 1) / 2 + rows * (column % 5)));
  }
  return row;
}

std::vector<float> repeated(const std::vector<float>& row, std::int64_t times, float factor = 1, float start = 0) {
  std::vector<float> all;
  for (std::int64_t i = 0; i < times; ++i) {
    for (const float value : row) all.push_back(start + factor * value);
  }
  return all;
}

struct Setup {
  Pair module;
  std::optional<DataParallel<Pair>> parallel;

  explicit Setup(ParallelApply mode = ParallelApply::workers, std::vector<int> devices = {2, 0, 1}) {
    to(module, Device(devices[0]));
    for (const Tensor& weight : {Tensor(module.left.weight), Tensor(module.right.weight)}) {
      copy(weight, to(full(weight.shape(), 1, DType::f32, Device(devices[0])), Device(devices[0])));
    }
    parallel.emplace(module, devices, with_mode(mode));
  }
  void backward(std::int64_t rows = 7) { sum((*parallel)(counting(rows))).backward(); }
};

const std::vector<ParallelApply> kModes{ParallelApply::inline_, ParallelApply::workers};

}  // namespace

TEST_CASE("who asks for a gradient gets the sum over the replicas, to the bit, in lanes and without") {
  for (const ParallelApply mode : kModes) {
    Setup setup(mode);
    setup.backward();
    CHECK(to_vector<float>(setup.module.right.weight.grad()) == repeated(expected_row(7), 3));
    CHECK(to_vector<float>(setup.module.left.weight.grad()) == repeated(expected_row(7), kOut));
  }
}

TEST_CASE("an optimizer's step uses the sum, and the replicas have the new parameters") {
  for (const ParallelApply mode : kModes) {
    Setup setup(mode);
    Sgd optimizer(parameters(setup.module), {.learning_rate = 0.5});
    setup.backward();
    optimizer.step();
    const std::vector<float> expected = repeated(expected_row(7), kOut, -0.5F, 1);
    CHECK(to_vector<float>(setup.module.left.weight) == expected);
    CHECK(to_vector<float>(setup.module.left.weight.grad()) == repeated(expected_row(7), kOut));
    // Each replica sums left(x) + right(x) of its own rows: the same numbers as one device alone.
    const std::vector<float> apart = to_vector<float>((*setup.parallel)(counting(9)));
    REQUIRE(apart.size() == 3);
    float row_sum = 0;
    for (std::int64_t column = 0; column < kIn; ++column) {
      const float weight = 1 - 0.5F * expected_row(7)[static_cast<std::size_t>(column)];
      row_sum += weight * static_cast<float>(3 * (column % 5) + 1 + 2 + 3);
    }
    CHECK(apart[0] == Approx(row_sum * static_cast<float>(kOut + 3)).epsilon(1e-5));
    const std::vector<float> alone = to_vector<float>(setup.module(to(counting(9), Device(2))));
    CHECK(apart[0] + apart[1] + apart[2] == Approx(alone[0]).epsilon(1e-5));
  }
}

TEST_CASE("a second backward adds to a gradient whose sum was pending") {
  Setup setup;
  setup.backward();
  setup.backward();
  CHECK(to_vector<float>(setup.module.left.weight.grad()) == repeated(expected_row(7), kOut, 2));
}

TEST_CASE("a backward through the module alone adds to a gradient whose sum was pending") {
  Setup setup;
  setup.backward();
  setup.module(to(counting(7), Device(2))).backward();
  CHECK(to_vector<float>(setup.module.left.weight.grad()) == repeated(expected_row(7), kOut, 2));
}

TEST_CASE("gradients that are forgotten while a sum is pending leave nothing in the next one") {
  Setup setup;
  setup.backward();
  zero_grad(setup.module);
  CHECK_FALSE(setup.module.left.weight.grad().defined());
  setup.backward(8);
  CHECK(to_vector<float>(setup.module.left.weight.grad()) == repeated(expected_row(8), kOut));
}

TEST_CASE("a handle of a gradient shows the next sum too, without asking") {
  Setup setup;
  setup.backward();
  const Tensor held = setup.module.left.weight.grad();
  zero_grad(setup.module);
  setup.backward(8);
  CHECK(to_vector<float>(held) == repeated(expected_row(8), kOut));
}

TEST_CASE("two optimizers share the gradients of one backward, in either order, and the second may come later") {
  for (const bool left_first : {true, false}) {
    Setup setup;
    Sgd left({setup.module.left.weight}, {.learning_rate = 0.5});
    Adam right({setup.module.right.weight}, {.learning_rate = 0.25});
    setup.backward();
    (left_first ? static_cast<Optimizer&>(left) : right).step();
    (void)(*setup.parallel)(counting(4));
    (left_first ? static_cast<Optimizer&>(right) : left).step();
    CHECK(to_vector<float>(setup.module.left.weight) == repeated(expected_row(7), kOut, -0.5F, 1));
    // Adam's first step is the learning rate times the gradient's sign.
    for (const float value : to_vector<float>(setup.module.right.weight)) CHECK(value == Approx(0.75F));
  }
}

TEST_CASE("a wrapper that ends after backward has summed the gradients") {
  Setup setup;
  Sgd optimizer(parameters(setup.module), {.learning_rate = 0.5});
  setup.backward();
  setup.parallel.reset();
  optimizer.step();
  CHECK(to_vector<float>(setup.module.left.weight) == repeated(expected_row(7), kOut, -0.5F, 1));
}

TEST_CASE("a step with fewer rows than devices sends to those that ran, and the others get theirs when they run") {
  Setup setup;
  Sgd optimizer(parameters(setup.module), {.learning_rate = 0.5});
  setup.backward(2);
  optimizer.step();
  CHECK(to_vector<float>(setup.module.left.weight) == repeated(expected_row(2), kOut, -0.5F, 1));
  const Tensor x = counting(3);
  const std::vector<float> apart = to_vector<float>((*setup.parallel)(x));
  const std::vector<float> alone = to_vector<float>(setup.module(to(x, Device(2))));
  CHECK(apart[0] + apart[1] + apart[2] == Approx(alone[0]).epsilon(1e-5));
}

TEST_CASE("a second step without a backward between uses the same sum again") {
  Setup setup;
  Sgd optimizer(parameters(setup.module), {.learning_rate = 0.5});
  setup.backward();
  optimizer.step();
  optimizer.step();
  CHECK(to_vector<float>(setup.module.left.weight) == repeated(expected_row(7), kOut, -1, 1));
}
