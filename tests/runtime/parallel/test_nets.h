// SPDX-License-Identifier: Apache-2.0
// Small modules and inputs for the tests of DataParallel.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/nn/linear.h"
#include "runtime/nn/move.h"
#include "runtime/nn/norm.h"
#include "runtime/ops/activation.h"
#include "runtime/ops/loss.h"
#include "runtime/parallel/data_parallel.h"
#include "runtime/tensor/random.h"

namespace fanout::test {

/// f64 results of several devices and of one differ by the order of sums alone.
constexpr double kTolerance = 1e-12;

/// `mode`, and a bucket for each parameter.
inline DataParallelOptions with_mode(ParallelApply mode) {
  DataParallelOptions options;
  options.parallel_apply = mode;
  options.bucket_bytes = 1;
  return options;
}

/// [rows, 6] → [rows, 4] in f64.
struct Net {
  Linear first{6, 5, true, DType::f64}, second{5, 4, true, DType::f64};

  void visit(Visitor& member) {
    member("first", first);
    member("second", second);
  }
  Tensor operator()(const Tensor& x) const { return second(tanh(first(x))); }
};

/// The same numbers every time, on the host.
inline Tensor numbers(const Shape& shape, int seed = 1) {
  std::vector<double> values(static_cast<std::size_t>(shape.elements()));
  Generator generator(static_cast<std::uint64_t>(seed));
  for (double& value : values) value = generator.uniform(-1, 1);
  return from_vector(values, shape);
}

inline Tensor labels(std::int64_t rows, std::int64_t classes) {
  std::vector<std::int64_t> values;
  for (std::int64_t row = 0; row < rows; ++row) values.push_back(row * 7 % classes);
  return from_vector(values, {rows});
}

/// A module made from a fixed seed and moved to `device`.
template <class M>
M seeded_on(Device device) {
  manual_seed(11);
  M module;
  to(module, device);
  return module;
}

inline std::vector<double> values_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  return to_vector<double>(tensor);
}

inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= largest)) largest = std::abs(a[i] - b[i]);
  }
  return largest;
}

/// Largest difference between the gradients of two modules of one type; infinite where only one has a gradient.
template <class M>
double gradient_difference(M& a, M& b) {
  const std::vector<Tensor> of_a = parameters(a), of_b = parameters(b);
  double largest = 0;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    if (of_a[i].grad().defined() != of_b[i].grad().defined()) return INFINITY;
    largest = std::max(largest, largest_difference(values_of(of_a[i].grad()), values_of(of_b[i].grad())));
  }
  return largest;
}

}  // namespace fanout::test
