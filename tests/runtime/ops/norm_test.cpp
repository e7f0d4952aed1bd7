// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/norm.h"

#include <catch2/catch.hpp>

#include <Eigen/Core>

#include "runtime/ops/shape.h"
#include "tests/runtime/gradcheck.h"

namespace fanout::testing {
namespace {

using Catch::Matchers::Contains;
using Array = Eigen::Array<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr double kEps = 1e-3;

Array array_of(const Tensor& tensor) {
  const std::vector<double> values = to_vector<double>(tensor);
  return Eigen::Map<const Array>(values.data(), tensor.rank() == 2 ? tensor.size(0) : 1, tensor.size(-1));
}

// Each row of x to mean 0 and deviation 1.
Array normalised_rows(const Array& x) {
  const Array centred = x.colwise() - x.rowwise().mean();
  return centred.colwise() / (centred.square().rowwise().mean() + kEps).sqrt();
}

void require_equal(const Tensor& actual, const Array& expected) {
  require_close(to_vector<double>(actual), {expected.data(), expected.data() + expected.size()});
}

TEST_CASE("layer_norm brings rows to gamma's deviation and beta's mean") {
  const Tensor x = random_tensor({4, 7}, 1), gamma = random_tensor({7}, 2), beta = random_tensor({7}, 3);
  const Array plain = normalised_rows(array_of(x));
  require_equal(layer_norm(x, {}, {}, kEps), plain);
  require_equal(layer_norm(x, gamma, {}, kEps), plain.rowwise() * array_of(gamma).row(0));
  require_equal(layer_norm(x, gamma, beta, kEps),
                (plain.rowwise() * array_of(gamma).row(0)).rowwise() + array_of(beta).row(0));
  CHECK(layer_norm(reshape(x, {2, 2, 7}), gamma, beta, kEps).shape() == Shape{2, 2, 7});
}

TEST_CASE("batch_norm uses the batch in training and updates the running statistics") {
  const Tensor x = random_tensor({5, 3}, 1);
  const Tensor mean = on_device<double>({1, 1, 1}, {3}), var = on_device<double>({2, 2, 2}, {3});
  const std::uint32_t version = mean.version();
  const Array columns = array_of(x).transpose();
  require_equal(batch_norm(x, mean, var, {}, {}, true, 0.1, kEps), normalised_rows(columns).transpose());
  const Eigen::ArrayXd means = columns.rowwise().mean();
  const Eigen::ArrayXd variances = (columns.colwise() - means).square().rowwise().sum() / 4;
  require_equal(mean, (0.9 + 0.1 * means).transpose());
  require_equal(var, (1.8 + 0.1 * variances).transpose());
  CHECK(mean.version() != version);
  require_equal(batch_norm(x, {}, {}, {}, {}, true, 0.1, kEps), normalised_rows(columns).transpose());
}

TEST_CASE("batch_norm uses the running statistics when not training, and leaves them alone") {
  const Tensor x = random_tensor({5, 3}, 1), mean = random_tensor({3}, 2), var = random_tensor({3}, 3, 0.5, 2);
  const Tensor gamma = random_tensor({3}, 4), beta = random_tensor({3}, 5);
  const std::vector<double> before = to_vector<double>(mean);
  const Array expected =
      (((array_of(x).rowwise() - array_of(mean).row(0)).rowwise() / (array_of(var) + kEps).sqrt().row(0)).rowwise() *
       array_of(gamma).row(0))
          .rowwise() +
      array_of(beta).row(0);
  require_equal(batch_norm(x, mean, var, gamma, beta, false, 0.1, kEps), expected);
  CHECK(to_vector<double>(mean) == before);
}

TEST_CASE("layer_norm has the derivatives that differences give, with and without parameters") {
  const Tensor x = random_tensor({4, 5}, 1), gamma = random_tensor({5}, 2), beta = random_tensor({5}, 3);
  gradcheck([](const Inputs& in) { return layer_norm(in[0], in[1], in[2], kEps); }, {x, gamma, beta});
  gradcheck([](const Inputs& in) { return layer_norm(in[0], {}, {}, kEps); }, {x});
  gradcheck([&](const Inputs& in) { return layer_norm(x, gamma, in[0], kEps); }, {beta});
  gradcheck([&](const Inputs& in) { return layer_norm(in[0], in[1], {}, kEps); }, {x, gamma});
  gradcheck([](const Inputs& in) { return layer_norm(transpose(in[0]), in[1], in[2], kEps); },
            {random_tensor({5, 4}, 4), gamma, beta});
  gradcheck([](const Inputs& in) { return layer_norm(in[0], in[1], in[1], kEps); }, {x, gamma});
}

TEST_CASE("batch_norm has the derivatives that differences give, in training and outside") {
  const bool training = GENERATE(true, false);
  const Tensor x = random_tensor({4, 5}, 1), gamma = random_tensor({5}, 2), beta = random_tensor({5}, 3);
  const Tensor mean = random_tensor({5}, 4), var = random_tensor({5}, 5, 0.5, 2);
  const auto norm = [&](const Tensor& at, const Tensor& scale, const Tensor& shift) {
    return training ? batch_norm(at, {}, {}, scale, shift, true, 0.1, kEps)
                    : batch_norm(at, mean, var, scale, shift, false, 0.1, kEps);
  };
  gradcheck([&](const Inputs& in) { return norm(in[0], in[1], in[2]); }, {x, gamma, beta});
  gradcheck([&](const Inputs& in) { return norm(in[0], {}, {}); }, {x});
  gradcheck([&](const Inputs& in) { return norm(x, in[0], beta); }, {gamma});
  gradcheck([&](const Inputs& in) { return norm(transpose(in[0]), in[1], in[2]); },
            {random_tensor({5, 4}, 6), gamma, beta});
}

TEST_CASE("gradients of gamma and beta add up where only one of them holds something") {
  const Tensor x = random_tensor({4, 5}, 1), gamma = leaf_of(random_tensor({5}, 2)),
               beta = leaf_of(random_tensor({5}, 3));
  const auto loss = [&] { return weighted_sum(layer_norm(x, gamma, beta, kEps)); };
  loss().backward();
  const std::vector<double> once_gamma = gradient_of(gamma), once_beta = gradient_of(beta);
  gamma.clear_grad();
  loss().backward();
  require_close(gradient_of(gamma), once_gamma);
  for (std::size_t i = 0; i < 5; ++i) CHECK(gradient_of(beta)[i] == Approx(2 * once_beta[i]));
}

TEST_CASE("norms name what is wrong") {
  const Tensor x = zeros({4, 5}, DType::f32, Device(0)), vector = zeros({5}, DType::f32, Device(0));
  CHECK_THROWS_WITH(layer_norm(x, zeros({4}, DType::f32, Device(0)), {}, kEps), Contains("gamma") && Contains("[4]"));
  CHECK_THROWS_WITH(batch_norm(zeros({1, 5}, DType::f32, Device(0)), vector, vector, {}, {}, true, 0.1, kEps),
                    Contains("Expected more than 1 value per channel when training"));
  CHECK_NOTHROW(batch_norm(zeros({1, 5}, DType::f32, Device(0)), vector, vector, {}, {}, false, 0.1, kEps));
  CHECK_THROWS_WITH(batch_norm(x, {}, {}, {}, {}, false, 0.1, kEps), Contains("needed when not training"));
  CHECK_THROWS_WITH(batch_norm(reshape(x, {2, 2, 5}), {}, {}, {}, {}, true, 0.1, kEps), Contains("[n, c]"));
  CHECK_THROWS_AS(batch_norm(x, vector, zeros({5}, DType::f32, Device::host()), {}, {}, true, 0.1, kEps),
                  PlacementError);
  CHECK_THROWS_AS(layer_norm(x, zeros({5}, DType::f32, Device(1)), {}, kEps), PlacementError);
  const Tensor leaf = leaf_of(random_tensor({2, 2}, 1));
  CHECK_THROWS_WITH(backward(sum(layer_norm(leaf, {}, {}, kEps)), {}, {.create_graph = true}),
                    Contains("layer_norm has no second derivative"));
}

}  // namespace
}  // namespace fanout::testing
