// SPDX-License-Identifier: Apache-2.0
// Sizes, oracles' arithmetic and finite differences for kernels on the rows and columns of matrices.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "tests/kernels/device_array.h"
#include "tests/kernels/values.h"

namespace fanout::kernels {

struct MatrixSize {
  std::int64_t rows, cols;
};

/// Rows and columns around the edges of vectors, warps and blocks, and the usual ten classes.
inline std::vector<MatrixSize> matrix_sizes() {
  std::vector<MatrixSize> sizes;
  for (const std::int64_t rows : {0, 1, 31, 32, 33, 1023, 1025}) {
    for (const std::int64_t cols : {0, 1, 10, 16, 17, 31, 32, 33, 1023, 1025}) {
      if (rows * cols < 100'000) sizes.push_back({rows, cols});
    }
  }
  sizes.push_back({1025, 1023});
  return sizes;
}

/// Whole numbers of at most 4: sums of thousands of products of them are exact in any order.
template <class T>
std::vector<T> small_integers(std::int64_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> uniform(-4, 4);
  std::vector<T> values(static_cast<std::size_t>(n));
  for (T& value : values) value = static_cast<T>(uniform(generator));
  return values;
}

/// The gradient of `loss`, a function of the whole vector, by central differences.
template <class Loss>
std::vector<double> finite_differences(std::vector<double> x, Loss loss, double step = 1e-5) {
  std::vector<double> gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double center = x[i];
    x[i] = center + step;
    const double above = loss(std::as_const(x));
    x[i] = center - step;
    gradient[i] = (above - loss(std::as_const(x))) / (2 * step);
    x[i] = center;
  }
  return gradient;
}

/// What central differences of smooth functions of size 1 are good for.
inline constexpr double kDifferenceTolerance = 1e-8;

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace fanout::kernels
