// SPDX-License-Identifier: Apache-2.0
// Distributions of initial values.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "runtime/nn/init.h"
#include "runtime/nn/linear.h"
#include "runtime/tensor/random.h"

using namespace fanout;

namespace {

struct Moments {
  double mean, variance, low, high;
};

Moments moments(const Tensor& tensor) {
  const std::vector<float> values = to_vector<float>(tensor);
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double variance = 0;
  for (const float value : values) variance += (value - mean) * (value - mean) / count;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {mean, variance, *low, *high};
}

// For 100,000 samples: the mean is within 5 standard errors, the variance within 3 %.
void check_uniform(const Tensor& tensor, double bound) {
  const Moments found = moments(tensor);
  CHECK(std::abs(found.mean) < 5 * bound / std::sqrt(3.0 * static_cast<double>(tensor.elements())));
  CHECK(found.variance == Approx(bound * bound / 3).epsilon(0.03));
  CHECK(found.low >= -bound * (1 + 1e-6));
  CHECK(found.high <= bound * (1 + 1e-6));
  CHECK(found.high - found.low > 1.99 * bound);
}

void check_normal(const Tensor& tensor, double mean, double deviation) {
  const Moments found = moments(tensor);
  CHECK(std::abs(found.mean - mean) < 5 * deviation / std::sqrt(static_cast<double>(tensor.elements())));
  CHECK(found.variance == Approx(deviation * deviation).epsilon(0.03));
  CHECK(found.high > mean + 3 * deviation);
}

}  // namespace

TEST_CASE("a Linear starts uniform within 1/sqrt(in), weight and bias") {
  const Linear layer(250, 400);
  check_uniform(layer.weight, 1 / std::sqrt(250.0));
  const Moments bias = moments(layer.bias);
  CHECK(bias.low >= -1 / std::sqrt(250.0));
  CHECK(bias.high <= 1 / std::sqrt(250.0));
  CHECK(bias.high - bias.low > 1.8 / std::sqrt(250.0));
  CHECK_THROWS_AS(Linear(0, 3), InvalidArgument);
}

TEST_CASE("the named distributions have their bounds and deviations") {
  const Tensor weight = zeros({200, 500}, DType::f32, Device::host());
  init::xavier_uniform(weight);
  check_uniform(weight, std::sqrt(6.0 / 700));
  init::xavier_uniform(weight, 2);
  check_uniform(weight, 2 * std::sqrt(6.0 / 700));
  init::xavier_normal(weight);
  check_normal(weight, 0, std::sqrt(2.0 / 700));
  init::kaiming_uniform(weight);
  check_uniform(weight, std::sqrt(6.0 / 500));
  init::kaiming_normal(weight, 1);
  check_normal(weight, 0, std::sqrt(1.0 / 500));
  init::normal(weight, 3, 0.5);
  check_normal(weight, 3, 0.5);
  init::uniform(weight, -0.25, 0.25);
  check_uniform(weight, 0.25);
}

TEST_CASE("fans of a weight of rank 4 count the inner sizes, rank 1 has none") {
  const Tensor kernel = zeros({50, 20, 10, 10}, DType::f32, Device::host());
  init::kaiming_normal(kernel);
  check_normal(kernel, 0, std::sqrt(2.0 / 2000));
  CHECK_THROWS_AS(init::xavier_uniform(zeros({5}, DType::f32, Device::host())), InvalidArgument);
}

TEST_CASE("initial values can be written on a device and count as a write") {
  const Tensor weight = zeros({2, 3}, DType::f64, Device(1));
  const std::uint32_t version = weight.version();
  init::ones(weight);
  CHECK(to_vector<double>(weight) == std::vector<double>(6, 1.0));
  CHECK(weight.version() > version);
  init::zeros(weight);
  CHECK(to_vector<double>(weight) == std::vector<double>(6, 0.0));
}

TEST_CASE("the same seed gives the same layer, another seed another one") {
  manual_seed(5);
  const auto first = to_vector<float>(Linear(10, 10).weight);
  manual_seed(5);
  CHECK(to_vector<float>(Linear(10, 10).weight) == first);
  CHECK(to_vector<float>(Linear(10, 10).weight) != first);
  manual_seed(6);
  CHECK(to_vector<float>(Linear(10, 10).weight) != first);
}
