// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/matmul.h"

#include <catch2/catch.hpp>

#include <Eigen/Core>

#include "runtime/ops/activation.h"
#include "runtime/ops/shape.h"
#include "tests/runtime/gradcheck.h"

namespace fanout::testing {
namespace {

using Catch::Matchers::Contains;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Matrix matrix_of(const Tensor& tensor) {
  const std::vector<double> values = to_vector<double>(tensor);
  return Eigen::Map<const Matrix>(values.data(), tensor.size(0), tensor.size(1));
}

std::vector<double> values_of(const Matrix& matrix) {
  return {matrix.data(), matrix.data() + matrix.size()};
}

TEST_CASE("matmul agrees with Eigen, transposed operands included") {
  const Tensor a = random_tensor({5, 7}, 1), b = random_tensor({7, 3}, 2);
  const Tensor a_stored = random_tensor({7, 5}, 3), b_stored = random_tensor({3, 7}, 4);
  require_close(to_vector<double>(matmul(a, b)), values_of(matrix_of(a) * matrix_of(b)));
  require_close(to_vector<double>(matmul(transpose(a_stored), b)),
                values_of(matrix_of(a_stored).transpose() * matrix_of(b)));
  require_close(to_vector<double>(matmul(a, transpose(b_stored))),
                values_of(matrix_of(a) * matrix_of(b_stored).transpose()));
  const Tensor wide = random_tensor({5, 9}, 5);  // a range of columns is neither contiguous nor a transpose
  require_close(to_vector<double>(matmul(narrow(wide, 1, 1, 7), b)),
                values_of(matrix_of(wide).block(0, 1, 5, 7) * matrix_of(b)));
}

TEST_CASE("linear agrees with Eigen over any number of leading dimensions") {
  const Tensor x = random_tensor({6, 5}, 1), weight = random_tensor({3, 5}, 2), bias = random_tensor({3}, 3);
  const std::vector<double> shift = to_vector<double>(bias);
  const Eigen::RowVectorXd row = Eigen::Map<const Eigen::RowVectorXd>(shift.data(), 3);
  const Matrix product = matrix_of(x) * matrix_of(weight).transpose();
  const Matrix shifted = product.rowwise() + row;
  require_close(to_vector<double>(linear(x, weight)), values_of(product));
  require_close(to_vector<double>(linear(x, weight, bias)), values_of(shifted));
  require_close(to_vector<double>(linear_relu(x, weight, bias)), values_of(shifted.cwiseMax(0.0)));
  require_close(to_vector<double>(linear_relu(x, weight)), values_of(product.cwiseMax(0.0)));
  const Tensor y = linear(reshape(x, {2, 3, 5}), weight, bias);
  CHECK(y.shape() == Shape{2, 3, 3});
  require_close(to_vector<double>(y), values_of(shifted));
  CHECK(linear(narrow(reshape(x, {-1}), 0, 0, 5), weight, bias).shape() == Shape{3});
}

TEST_CASE("matmul has the first and second derivatives that differences give") {
  const Tensor a = random_tensor({3, 5}, 1), b = random_tensor({5, 2}, 2);
  const Tensor a_stored = random_tensor({5, 3}, 3), b_stored = random_tensor({2, 5}, 4);
  check_derivatives([](const Inputs& in) { return matmul(in[0], in[1]); }, {a, b});
  check_derivatives([](const Inputs& in) { return matmul(transpose(in[0]), transpose(in[1])); }, {a_stored, b_stored});
  check_derivatives([](const Inputs& in) { return matmul(narrow(in[0], 1, 1, 3), narrow(in[1], 0, 2, 3)); }, {a, b});
}

TEST_CASE("linear and linear_relu have the first and second derivatives that differences give") {
  const auto f = GENERATE(as<Tensor (*)(const Tensor&, const Tensor&, const Tensor&)>(), linear, linear_relu);
  const Tensor x = random_tensor({4, 5}, 1), weight = random_tensor({3, 5}, 2), bias = random_tensor({3}, 3);
  check_derivatives([&](const Inputs& in) { return f(in[0], in[1], in[2]); }, {x, weight, bias});
  check_derivatives([&](const Inputs& in) { return f(in[0], in[1], {}); }, {x, weight});
  check_derivatives([&](const Inputs& in) { return f(reshape(in[0], {2, 2, 5}), in[1], in[2]); }, {x, weight, bias});
  check_derivatives([&](const Inputs& in) { return f(transpose(in[0]), transpose(in[1]), narrow(in[2], 0, 0, 3)); },
                    {random_tensor({5, 4}, 4), random_tensor({5, 3}, 5), random_tensor({4}, 6)});
}

TEST_CASE("linear gives only the gradients that are wanted") {
  const Tensor x = random_tensor({4, 5}, 1), weight = random_tensor({3, 5}, 2), bias = random_tensor({3}, 3);
  const auto f = GENERATE(as<Tensor (*)(const Tensor&, const Tensor&, const Tensor&)>(), linear, linear_relu);
  gradcheck([&](const Inputs& in) { return f(in[0], weight, bias); }, {x});
  gradcheck([&](const Inputs& in) { return f(x, in[0], bias); }, {weight});
  gradcheck([&](const Inputs& in) { return f(x, weight, in[0]); }, {bias});
}

TEST_CASE("one tensor as x and as weight gets both gradients") {
  check_derivatives([](const Inputs& in) { return linear(in[0], in[0]); }, {random_tensor({3, 3}, 1)});
  check_derivatives([](const Inputs& in) { return matmul(in[0], in[0]); }, {random_tensor({3, 3}, 2)});
}

TEST_CASE("linear of no rows gives no rows, and zero weight gradients") {
  const Tensor weight = leaf_of(random_tensor({3, 5}, 1)), bias = leaf_of(random_tensor({3}, 2));
  const Tensor x = zeros({0, 5}, DType::f64, Device(0));
  const auto f = GENERATE(as<Tensor (*)(const Tensor&, const Tensor&, const Tensor&)>(), linear, linear_relu);
  const Tensor y = f(x, weight, bias);
  CHECK(y.shape() == Shape{0, 3});
  sum(y).backward();
  CHECK(to_vector<double>(weight.grad()) == std::vector<double>(15, 0.0));
  CHECK(to_vector<double>(bias.grad()) == std::vector<double>(3, 0.0));
}

TEST_CASE("linear names operands that do not fit, or are not on one device") {
  const Tensor x = zeros({4, 5}, DType::f32, Device(0)), weight = zeros({3, 6}, DType::f32, Device(0));
  CHECK_THROWS_AS(linear(x, weight), InvalidArgument);
  CHECK_THROWS_WITH(linear(x, weight), Contains("linear: f32 [4, 5] on cuda:0 and f32 [3, 6] on cuda:0"));
  CHECK_THROWS_WITH(matmul(x, weight), Contains("matmul: f32 [4, 5] on cuda:0 and f32 [3, 6] on cuda:0"));
  const Tensor fitting = zeros({3, 5}, DType::f32, Device(0));
  CHECK_THROWS_WITH(linear(x, fitting, zeros({4}, DType::f32, Device(0))), Contains("bias [out]"));
  CHECK_THROWS_WITH(linear_relu(x, fitting, zeros({3}, DType::f64, Device(0))), Contains("linear_relu"));
  CHECK_THROWS_WITH(linear(x, zeros({3, 5}, DType::f32, Device(1))), Contains("linear: tensors on cuda:0 and cuda:1"));
  CHECK_THROWS_WITH(linear(x, zeros({3, 5}, DType::f32, Device::host())), Contains("did to(module, device) run?"));
  CHECK_THROWS_AS(linear(x, fitting, zeros({3}, DType::f32, Device(2))), PlacementError);
}

}  // namespace
}  // namespace fanout::testing
