// SPDX-License-Identifier: Apache-2.0
// Checks of derivatives by central differences in f64: the oracle of every operator's backward.
#pragma once

#include <catch2/catch.hpp>

#include <cmath>
#include <cstddef>
#include <functional>
#include <random>
#include <vector>

#include "runtime/autograd/backward.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/ops/reduce.h"
#include "runtime/tensor/copy.h"
#include "runtime/tensor/tensor.h"

namespace fanout::testing {

using Inputs = std::vector<Tensor>;
using Function = std::function<Tensor(const Inputs&)>;

inline constexpr double kStep = 1e-5;
inline constexpr double kTolerance = 1e-6;  // absolute, and relative

/// Uniform f64 values in [low, high) on `device`, the same for the same seed.
inline Tensor random_tensor(const Shape& shape, unsigned seed, double low = -1, double high = 1,
                            Device device = Device(0)) {
  std::mt19937_64 engine(seed);
  std::vector<double> values(static_cast<std::size_t>(shape.elements()));
  for (double& value : values) value = low + (high - low) * (static_cast<double>(engine() >> 11) * 0x1p-53);
  return copied_to(from_vector(values, shape), device);
}

/// The values on `device`, as a tensor of another dtype or place than a host vector.
template <class T>
Tensor on_device(const std::vector<T>& values, const Shape& shape, Device device = Device(0)) {
  return copied_to(from_vector(values, shape), device);
}

/// A leaf with the same elements.
inline Tensor leaf_of(const Tensor& values) {
  return copied_to(values, values.device()).set_requires_grad();
}

inline Inputs leaves_of(const Inputs& inputs) {
  Inputs leaves;
  for (const Tensor& input : inputs) leaves.push_back(leaf_of(input));
  return leaves;
}

/// sum of y * w with w fixed and different for each element, so that no error of a gradient cancels.
inline Tensor weighted_sum(const Tensor& y) {
  return sum(y * random_tensor(y.shape(), 977, 0.5, 1.5, y.device()));
}

/// The gradient of `leaf` on the host; zeros where backward left none.
inline std::vector<double> gradient_of(const Tensor& leaf) {
  if (!leaf.grad().defined()) return std::vector<double>(static_cast<std::size_t>(leaf.elements()), 0.0);
  return to_vector<double>(leaf.grad());
}

/// Derivative of objective(inputs) by element `element` of input `which`.
inline double central_difference(const Function& objective, const Inputs& inputs, std::size_t which,
                                 std::size_t element) {
  const auto value_at = [&](double step) {
    Inputs moved = inputs;
    std::vector<double> values = to_vector<double>(inputs[which]);
    values[element] += step;
    moved[which] = on_device(values, inputs[which].shape(), inputs[which].device());
    return item(objective(moved));
  };
  return (value_at(kStep) - value_at(-kStep)) / (2 * kStep);
}

/// `objective` gives one element that depends on leaves made of `inputs`; all derivatives are compared.
inline void compare_gradients(const Function& objective, const Inputs& inputs, BackwardOptions options = {}) {
  const Inputs leaves = leaves_of(inputs);
  const Tensor value = objective(leaves);
  if (value.requires_grad()) backward(value, {}, options);
  for (std::size_t which = 0; which < inputs.size(); ++which) {
    const std::vector<double> gradient = gradient_of(leaves[which]);
    leaves[which].clear_grad();  // a gradient made with create_graph holds the graph, and that the leaf
    REQUIRE(gradient.size() == static_cast<std::size_t>(inputs[which].elements()));
    for (std::size_t element = 0; element < gradient.size(); ++element) {
      const double expected = central_difference(objective, inputs, which, element);
      INFO("input " << which << ", element " << element);
      REQUIRE(std::abs(gradient[element] - expected) <= kTolerance * (1 + std::abs(expected)));
    }
  }
}

/// Compares f's first derivatives, by every element of every input, with differences.
inline void gradcheck(const Function& f, const Inputs& inputs) {
  compare_gradients([&](const Inputs& at) { return weighted_sum(f(at)); }, inputs);
}

/// Compares the gradients that create_graph makes with differences, and the derivatives of a weighted sum of them.
inline void gradgradcheck(const Function& f, const Inputs& inputs) {
  compare_gradients([&](const Inputs& at) { return weighted_sum(f(at)); }, inputs, {.create_graph = true});
  const Function sum_of_gradients = [&](const Inputs& at) {
    const Inputs leaves = at.front().requires_grad() ? at : leaves_of(at);
    backward(weighted_sum(f(leaves)), {}, {.create_graph = true});
    Tensor total = zeros({}, DType::f64, Device(0));
    for (const Tensor& leaf : leaves) {
      const Tensor gradient = leaf.grad();
      leaf.clear_grad();
      if (gradient.defined()) total = total + weighted_sum(gradient);
    }
    return total;
  };
  compare_gradients(sum_of_gradients, inputs);
}

/// Both.
inline void check_derivatives(const Function& f, const Inputs& inputs) {
  gradcheck(f, inputs);
  gradgradcheck(f, inputs);
}

inline void require_close(const std::vector<double>& actual, const std::vector<double>& expected,
                          double tolerance = 1e-12) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    INFO("element " << i);
    if (std::isnan(expected[i])) {
      REQUIRE(std::isnan(actual[i]));
    } else {
      REQUIRE(std::abs(actual[i] - expected[i]) <= tolerance * (1 + std::abs(expected[i])));
    }
  }
}

}  // namespace fanout::testing
