// SPDX-License-Identifier: Apache-2.0
// The oracle is exact: products of rounded operands in f64, rounded once.
#include "runtime/autograd/autocast.h"

#include <catch2/catch.hpp>

#include <thread>

#include <Eigen/Core>

#include "runtime/ops/activation.h"
#include "runtime/ops/convert.h"
#include "runtime/ops/dropout.h"
#include "runtime/ops/loss.h"
#include "runtime/ops/matmul.h"
#include "runtime/ops/norm.h"
#include "runtime/ops/shape.h"
#include "runtime/tensor/random.h"
#include "tests/kernels/bf16_values.h"
#include "tests/runtime/gradcheck.h"

namespace fanout::testing {
namespace {

using Catch::Matchers::Contains;
using kernels::nearest_bf16;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Linear = Tensor (*)(const Tensor&, const Tensor&, const Tensor&);

Tensor random_f32(const Shape& shape, unsigned seed) {
  return convert(random_tensor(shape, seed), DType::f32);
}

std::vector<double> values_of(const Tensor& tensor) {
  return to_vector<double>(convert(tensor, DType::f64));
}

/// The values as a product under Autocast sees them.
Matrix rounded(const Tensor& matrix) {
  std::vector<double> values = values_of(matrix);
  for (double& value : values) value = nearest_bf16(value);
  return Eigen::Map<const Matrix>(values.data(), matrix.shape().elements(0, matrix.rank() - 1), matrix.size(-1));
}

Eigen::RowVectorXd row_of(const Tensor& vector) {
  const std::vector<double> values = values_of(vector);
  return Eigen::Map<const Eigen::RowVectorXd>(values.data(), vector.size(0));
}

/// bf16, and within one unit in the last place of `exact` rounded: the sums in f32 may cross a tie.
void require_rounded_once(const Tensor& actual, const Matrix& exact) {
  CHECK(actual.dtype() == DType::bf16);
  const std::vector<double> values = values_of(actual);
  REQUIRE(values.size() == static_cast<std::size_t>(exact.size()));
  std::size_t off = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double expected = nearest_bf16(exact.data()[i]);
    INFO("element " << i);
    REQUIRE(std::abs(values[i] - expected) <= std::abs(expected) * 0x1p-7 + 1e-6);
    off += values[i] != expected ? 1 : 0;
  }
  CHECK(off * 100 <= values.size());
}

void require_matrix(const Tensor& actual, const Matrix& expected, double tolerance) {
  CHECK(actual.dtype() == DType::f32);
  require_close(values_of(actual), {expected.data(), expected.data() + expected.size()}, tolerance);
}

}  // namespace

TEST_CASE("Autocast holds for its scope and thread, nests, and can be switched off inside") {
  CHECK_FALSE(autocast_dtype().has_value());
  {
    const Autocast outer;
    CHECK(autocast_dtype() == DType::bf16);
    {
      const Autocast off(DType::bf16, false);
      CHECK_FALSE(autocast_dtype().has_value());
      const Autocast again;
      CHECK(autocast_dtype() == DType::bf16);
    }
    CHECK(autocast_dtype() == DType::bf16);
    std::thread([] { CHECK_FALSE(autocast_dtype().has_value()); }).join();
    CHECK_THROWS_WITH(Autocast(DType::f32), Contains("products are computed in bf16, not in f32"));
    CHECK(autocast_dtype() == DType::bf16);
  }
  CHECK_FALSE(autocast_dtype().has_value());
}

TEST_CASE("matmul under Autocast is the product of the rounded operands, rounded once") {
  const Autocast autocast;
  const Tensor a = random_f32({65, 97}, 1), b = random_f32({97, 33}, 2);
  require_rounded_once(matmul(a, b), rounded(a) * rounded(b));
  const Tensor a_stored = random_f32({97, 65}, 3), b_stored = random_f32({33, 97}, 4);
  require_rounded_once(matmul(transpose(a_stored), transpose(b_stored)),
                       rounded(a_stored).transpose() * rounded(b_stored).transpose());
  require_rounded_once(matmul(narrow(a, 1, 3, 20), narrow(b, 0, 7, 20)),
                       rounded(a).block(0, 3, 65, 20) * rounded(b).block(7, 0, 20, 33));
  require_rounded_once(matmul(convert(a, DType::bf16), b), rounded(a) * rounded(b));
  const Tensor narrow_b = convert(b_stored, DType::bf16);
  require_rounded_once(matmul(a, transpose(narrow_b)), rounded(a) * rounded(b_stored).transpose());
}

TEST_CASE("linear and linear_relu under Autocast add the bias in f32 and round once") {
  const Autocast autocast;
  for (const std::int64_t rows : {1, 6, 66}) {
    const Tensor x = random_f32({rows, 70}, 1), weight = random_f32({31, 70}, 2), bias = random_f32({31}, 3);
    const Matrix product = rounded(x) * rounded(weight).transpose();
    const Matrix shifted = product.rowwise() + row_of(bias);  // the bias is not rounded
    require_rounded_once(linear(x, weight), product);
    require_rounded_once(linear(x, weight, bias), shifted);
    require_rounded_once(linear_relu(x, weight), product.cwiseMax(0.0));
    require_rounded_once(linear_relu(x, weight, bias), shifted.cwiseMax(0.0));
    require_rounded_once(linear(convert(x, DType::bf16), weight, convert(bias, DType::f32)), shifted);
  }
  const Tensor x = random_f32({6, 5}, 1), weight = random_f32({3, 5}, 2), bias = random_f32({3}, 3);
  CHECK(linear(reshape(x, {2, 3, 5}), weight, bias).shape() == Shape{2, 3, 3});
  // 256 + 1 + 2: rounded before the bias it would be 258.
  const Tensor one_row = on_device<float>({256, 1}, {1, 2}), ones = on_device<float>({1, 1}, {1, 2});
  CHECK(item(linear(one_row, ones, on_device<float>({2}, {1}))) == 260);
}

TEST_CASE("products of bf16 tensors need no Autocast") {
  const Tensor x = convert(random_f32({6, 70}, 1), DType::bf16), weight = convert(random_f32({31, 70}, 2), DType::bf16);
  const Tensor bias = convert(random_f32({31}, 3), DType::bf16);
  const Matrix product = rounded(x) * rounded(weight).transpose();
  const Matrix shifted = product.rowwise() + row_of(bias);
  require_rounded_once(matmul(x, transpose(weight)), product);
  require_rounded_once(linear(x, weight, bias), shifted);
  require_rounded_once(linear_relu(x, weight, bias), shifted.cwiseMax(0.0));
  const Tensor f32 = random_f32({31, 70}, 2);
  CHECK_THROWS_WITH(linear(x, f32), Contains("of one dtype"));
  CHECK_THROWS_WITH(matmul(x, transpose(f32)), Contains("of one dtype"));
}

TEST_CASE("Autocast leaves f64 alone, and does not mix it with f32") {
  const Tensor x = random_tensor({4, 5}, 1), weight = random_tensor({3, 5}, 2), bias = random_tensor({3}, 3);
  const std::vector<double> expected = to_vector<double>(linear(x, weight, bias));
  const Autocast autocast;
  CHECK(to_vector<double>(linear(x, weight, bias)) == expected);
  CHECK(matmul(x, transpose(weight)).dtype() == DType::f64);
  CHECK_THROWS_WITH(matmul(x, transpose(convert(weight, DType::f32))),
                    Contains("f64 [4, 5]") && Contains("f32 [5, 3]"));
  CHECK_THROWS_WITH(linear(x, weight, convert(bias, DType::f32)), Contains("of one dtype"));
}

// All floating operators but the products, with the name that their messages have.
const std::vector<std::pair<std::string, std::function<Tensor(const Tensor&)>>>& other_operators() {
  static const Tensor labels = on_device<std::int64_t>({0, 2, 1, 1}, {4});
  const auto unary = [](auto f) { return [f](const Tensor& x) { return f(x); }; };
  static const std::vector<std::pair<std::string, std::function<Tensor(const Tensor&)>>> operators = {
      {"relu", unary([](const Tensor& x) { return relu(x); })},
      {"gelu", unary([](const Tensor& x) { return gelu(x); })},
      {"tanh", unary([](const Tensor& x) { return tanh(x); })},
      {"sigmoid", unary([](const Tensor& x) { return sigmoid(x); })},
      {"softmax", unary([](const Tensor& x) { return softmax(x); })},
      {"log_softmax", unary([](const Tensor& x) { return log_softmax(x); })},
      {"relu_mask", unary([](const Tensor& x) { return relu_mask(x, x); })},
      {"subtract", unary([](const Tensor& x) { return x - x; })},
      {"multiply", unary([](const Tensor& x) { return x * x; })},
      {"divide", unary([](const Tensor& x) { return x / x; })},
      {"scale", unary([](const Tensor& x) { return x * 0.1; })},
      {"add_scalar", unary([](const Tensor& x) { return x + 0.1; })},
      {"divide", unary([](const Tensor& x) { return 0.1 / x; })},
      {"exp", unary([](const Tensor& x) { return exp(x); })},
      {"log", unary([](const Tensor& x) { return log(x); })},
      {"sqrt", unary([](const Tensor& x) { return sqrt(x); })},
      {"square", unary([](const Tensor& x) { return square(x); })},
      {"sum", unary([](const Tensor& x) { return sum(x); })},
      {"sum", unary([](const Tensor& x) { return mean(x, 0); })},
      {"expand", unary([](const Tensor& x) {
         return expand(x, {2, 4, 3});
       })},
      {"dropout", unary([](const Tensor& x) {
         manual_seed(7);
         return dropout(x, 0.25, true);
       })},
      {"cross_entropy", unary([](const Tensor& x) { return cross_entropy(x, labels); })},
      {"mse_loss", unary([](const Tensor& x) { return mse_loss(x, x + x); })},
      {"layer_norm", unary([](const Tensor& x) { return layer_norm(x, {}, {}, 1e-5); })},
      {"batch_norm", unary([](const Tensor& x) { return batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5); })},
  };
  return operators;
}

TEST_CASE("all other operators take bf16 as f32 under Autocast, and pass the gradient back through the rounding") {
  for (const auto& [name, f] : other_operators()) {
    CAPTURE(name);
    const Tensor narrow = leaf_of(convert(random_tensor({4, 3}, 1, 0.5, 2), DType::bf16));
    const Tensor wide = leaf_of(convert(narrow, DType::f32));
    const Tensor expected = f(wide);
    backward(sum(convert(expected, DType::f64) * 0.37));
    Tensor y;
    {
      const Autocast autocast;
      y = f(narrow);
    }
    CHECK(y.dtype() == DType::f32);
    require_close(values_of(y), values_of(expected), 0);
    backward(sum(convert(y, DType::f64) * 0.37));
    CHECK(narrow.grad().dtype() == DType::bf16);
    require_close(values_of(narrow.grad()), values_of(wide.grad()), 0.01);
  }
}

TEST_CASE("without Autocast other operators refuse bf16 and say what to do") {
  const Tensor x = convert(random_tensor({4, 3}, 1, 0.5, 2), DType::bf16);
  for (const auto& [name, f] : other_operators()) {
    CHECK_THROWS_WITH(f(x), name +
                                ": this operator computes in f32 or f64; convert(x, DType::f32) first, or run it "
                                "under Autocast");
  }
}

TEST_CASE("argmax takes bf16 under Autocast") {
  const Tensor x = convert(on_device<float>({1, 3, 2, 9, 8, 7}, {2, 3}), DType::bf16);
  CHECK_THROWS_WITH(argmax(x), Contains("under Autocast"));
  const Autocast autocast;
  CHECK(to_vector<std::int64_t>(argmax(x)) == std::vector<std::int64_t>{1, 0});
}

TEST_CASE("operators with one bf16 and one f32 operand compute in f32 under Autocast") {
  const Tensor wide = random_f32({4, 3}, 1), narrow = convert(random_f32({4, 3}, 2), DType::bf16);
  const Autocast autocast;
  const Tensor as_f32 = convert(narrow, DType::f32);
  require_close(values_of(wide + narrow), values_of(wide + as_f32), 0);
  require_close(values_of(narrow - wide), values_of(as_f32 - wide), 0);
  require_close(values_of(narrow + narrow), values_of(as_f32 + as_f32), 0);
  require_close(values_of(mse_loss(narrow, wide)), values_of(mse_loss(as_f32, wide)), 0);
  const Tensor scale = random_f32({3}, 3), running_mean = zeros({3}, DType::f32, Device(0));
  const Tensor running_var = full({3}, 1, DType::f32, Device(0));
  CHECK(batch_norm(narrow, running_mean, running_var, scale, scale, true, 0.1, 1e-5).dtype() == DType::f32);
  CHECK(to_vector<float>(running_mean) != std::vector<float>(3, 0));
}

TEST_CASE("gradients of products under Autocast are f32: products of rounded matrices, themselves not rounded") {
  const auto f = GENERATE(as<Linear>(), linear, linear_relu);
  const Tensor x = leaf_of(random_f32({40, 70}, 1)), weight = leaf_of(random_f32({31, 70}, 2));
  const Tensor bias = leaf_of(random_f32({31}, 3)), upstream = random_f32({40, 31}, 4);
  Tensor y;
  {
    const Autocast autocast;
    y = f(x, weight, bias);
  }
  backward(sum(convert(y, DType::f32) * upstream));
  Matrix dy = rounded(upstream);
  if (f == Linear(linear_relu)) dy = (rounded(y).array() > 0).select(dy, 0.0);
  require_matrix(x.grad(), dy * rounded(weight), 1e-5);
  require_matrix(weight.grad(), dy.transpose() * rounded(x), 1e-5);
  require_matrix(bias.grad(), dy.colwise().sum(), 1e-5);
  // A second backward adds in f32.
  const std::vector<double> once = values_of(weight.grad());
  {
    const Autocast autocast;
    y = f(x, weight, bias);
  }
  backward(sum(convert(y, DType::f32) * upstream));
  std::vector<double> twice = once;
  for (double& value : twice) value *= 2;
  require_close(values_of(weight.grad()), twice, 1e-6);
}

TEST_CASE("gradients of matmul under Autocast are f32, and bf16 for bf16 operands") {
  const Tensor a = leaf_of(random_f32({20, 30}, 1)), b = leaf_of(convert(random_f32({30, 9}, 2), DType::bf16));
  const Tensor upstream = random_f32({20, 9}, 3);
  Tensor y;
  {
    const Autocast autocast;
    y = matmul(a, b);
  }
  backward(sum(convert(y, DType::f32) * upstream));
  require_matrix(a.grad(), rounded(upstream) * rounded(b).transpose(), 1e-5);
  require_rounded_once(b.grad(), rounded(a).transpose() * rounded(upstream));
}

TEST_CASE(
    "a net under Autocast has gradients near those in f32, inside the scope and outside, whatever is used twice") {
  const Tensor x = random_f32({16, 12}, 1), labels = on_device(std::vector<std::int64_t>(16, 1), {16});
  const std::vector<Tensor> weights = {leaf_of(random_f32({20, 12}, 2)), leaf_of(random_f32({20}, 3)),
                                       leaf_of(random_f32({20, 20}, 4)), leaf_of(random_f32({3, 20}, 5))};
  const auto loss_of = [&] {
    const Tensor hidden = linear(x, weights[0], weights[1]);
    const Tensor both = gelu(linear(hidden, weights[2]) + tanh(hidden));
    return cross_entropy(linear(relu(both + hidden), weights[3]), labels);
  };
  const auto gradients = [&](const std::function<void()>& run) {
    for (const Tensor& weight : weights) weight.clear_grad();
    run();
    std::vector<std::vector<double>> result;
    for (const Tensor& weight : weights) {
      CHECK(weight.grad().dtype() == DType::f32);
      result.push_back(values_of(weight.grad()));
    }
    return result;
  };
  const auto in_f32 = gradients([&] { loss_of().backward(); });
  const auto outside = gradients([&] {
    Tensor loss;
    {
      const Autocast autocast;
      loss = loss_of();
    }
    CHECK(loss.dtype() == DType::f32);
    loss.backward();
  });
  const auto inside = gradients([&] {
    const Autocast autocast;
    loss_of().backward();
  });
  CHECK(inside == outside);
  for (std::size_t i = 0; i < in_f32.size(); ++i) {
    CAPTURE(i);
    CHECK(outside[i] != in_f32[i]);
    double difference = 0, size = 0;
    for (std::size_t j = 0; j < in_f32[i].size(); ++j) {
      difference += std::pow(outside[i][j] - in_f32[i][j], 2);
      size += std::pow(in_f32[i][j], 2);
    }
    CHECK(std::sqrt(difference / size) < 0.01);
  }
}

TEST_CASE("products under Autocast have second derivatives near those in f32") {
  const auto f =
      GENERATE(as<Linear>(), linear, linear_relu, [](const Tensor& x, const Tensor& weight, const Tensor& bias) {
        return relu(matmul(x, transpose(weight)) + bias);
      });
  const Tensor x = leaf_of(random_f32({8, 6}, 1)), weight = leaf_of(random_f32({5, 6}, 2));
  const Tensor bias = leaf_of(random_f32({5}, 3)), upstream = random_f32({8, 5}, 4);
  const auto penalty_gradient = [&](bool enabled, bool backward_inside = false) {
    for (const Tensor& leaf : {x, weight, bias}) leaf.clear_grad();
    Tensor y;
    {
      const Autocast autocast(DType::bf16, enabled);
      y = f(x, weight, bias);
    }
    const Autocast during_backward(DType::bf16, backward_inside);
    const Tensor wide = convert(y, DType::f32);
    backward(sum(wide * wide * upstream), {}, {.create_graph = true});
    const Tensor penalty = sum(square(x.grad()));
    for (const Tensor& leaf : {x, weight, bias}) leaf.clear_grad();
    backward(penalty);
    CHECK(weight.grad().dtype() == DType::f32);
    return values_of(weight.grad());
  };
  const auto expected = penalty_gradient(false), actual = penalty_gradient(true);
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(actual[i] - expected[i], 2);
    size += std::pow(expected[i], 2);
  }
  CHECK(size > 0);
  CHECK(std::sqrt(difference / size) < 0.03);
  CHECK(penalty_gradient(true, true) == actual);
}

}  // namespace fanout::testing
