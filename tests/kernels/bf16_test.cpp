// SPDX-License-Identifier: Apache-2.0
// Kernels that take bf16: they compute in float and round once.
#include "kernels/activation.h"
#include "kernels/arithmetic.h"
#include "kernels/bias.h"
#include "kernels/bias_backward.h"
#include "tests/kernels/bf16_values.h"
#include "tests/kernels/device_array.h"
#include "tests/kernels/values.h"

namespace fanout::kernels {
namespace {

using Bf16 = __nv_bfloat16;

const std::vector<std::int64_t> kColumns = {0, 1, 3, 4, 10, 31, 32, 33, 1023, 1024, 1025};

/// Whole numbers in [-4, 4].
template <class T>
std::vector<T> whole_numbers(std::int64_t n, int seed) {
  std::vector<T> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = T(static_cast<int>((i * 7 + i / 5) % 9) * seed % 9 - 4);
  return values;
}

}  // namespace

TEST_CASE("add of bf16 is the rounded sum, NaN and infinity included, in place too") {
  for (const auto n : kLengths) {
    const auto a = bf16_values(wild_values<float>(n, 1)), b = bf16_values(wild_values<float>(n, 2));
    std::vector<double> expected(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) expected[i] = nearest_bf16(double(float(a[i])) + double(float(b[i])));
    for (const int shift : {0, 1, 2, 4}) {
      CAPTURE(n, shift);
      const DeviceArray<Bf16> first(a, shift & 1), second(b, shift >> 1 & 1);
      const auto y = DeviceArray<Bf16>::unset(n, shift >> 2);
      REQUIRE(add<Bf16>(nullptr, y.data(), first.data(), second.data(), n) == cudaSuccess);
      require_near(y.to_host(), expected, 0);
      REQUIRE(add<Bf16>(nullptr, first.data(), first.data(), second.data(), n) == cudaSuccess);
      require_near(first.to_host(), expected, 0);
    }
  }
}

TEST_CASE("relu of bf16 keeps positive numbers and NaN") {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const DeviceArray<Bf16> x({1.5f, -1.5f, 0.0f, infinity, -infinity, nan, 2.0f, -2.0f, 3.0f});
  REQUIRE(relu<Bf16>(nullptr, x.data(), x.data(), 9) == cudaSuccess);
  require_near(x.to_host(), std::vector<float>{1.5f, 0, 0, infinity, 0, nan, 2, 0, 3}, 0);
}

TEST_CASE("bias_add and bias_relu towards bf16 add in float and round once") {
  for (const std::int64_t rows : {0, 1, 3, 33}) {
    for (const auto cols : kColumns) {
      const auto x = random_values<float>(rows * cols, 1), bias = random_values<float>(cols, 2);
      std::vector<double> sum(x.size()), clipped(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        sum[i] = nearest_bf16(static_cast<double>(x[i] + bias[i % bias.size()]));
        clipped[i] = std::max(sum[i], 0.0);
      }
      for (const int shift : {0, 1, 2, 4}) {
        CAPTURE(rows, cols, shift);
        const DeviceArray<float> x_there(x, shift & 1), bias_there(bias, shift >> 1 & 1);
        const auto y = DeviceArray<Bf16>::unset(rows * cols, shift >> 2);
        REQUIRE(bias_add(nullptr, y.data(), x_there.data(), bias_there.data(), rows, cols) == cudaSuccess);
        require_near(y.to_host(), sum, 0);
        REQUIRE(bias_relu(nullptr, y.data(), x_there.data(), bias_there.data(), rows, cols) == cudaSuccess);
        require_near(y.to_host(), clipped, 0);
      }
    }
  }
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const DeviceArray<float> x({nan, 1, infinity}), bias({1, nan, -infinity});
  const auto y = DeviceArray<Bf16>::unset(3);
  REQUIRE(bias_relu(nullptr, y.data(), x.data(), bias.data(), 1, 3) == cudaSuccess);
  require_near(y.to_host(), std::vector<float>{nan, nan, nan}, 0);
}

TEST_CASE("bias_relu_backward of bf16 masks the gradient exactly and sums its columns in float") {
  for (const std::int64_t rows : {1, 3, 33, 700}) {
    for (const auto cols : kColumns) {
      CAPTURE(rows, cols);
      const auto dy = whole_numbers<Bf16>(rows * cols, 1), y = whole_numbers<Bf16>(rows * cols, 2);
      std::vector<float> dx(dy.size()), dbias(static_cast<std::size_t>(cols), 5.0f);
      for (std::size_t i = 0; i < dy.size(); ++i) {
        dx[i] = float(y[i]) > 0 ? float(dy[i]) : 0;
        dbias[i % dbias.size()] += dx[i];  // beyond what bf16 could hold
      }
      const DeviceArray<Bf16> dy_there(dy), y_there(y);
      const auto dx_there = DeviceArray<Bf16>::unset(rows * cols);
      const DeviceArray<float> dbias_there(std::vector<float>(dbias.size(), 5.0f));
      REQUIRE(bias_relu_backward(nullptr, dx_there.data(), dbias_there.data(), dy_there.data(), y_there.data(), true,
                                 rows, cols) == cudaSuccess);
      require_near(dx_there.to_host(), dx, 0);
      require_near(dbias_there.to_host(), dbias, 0);
      REQUIRE(bias_relu_backward(nullptr, dy_there.data(), static_cast<float*>(nullptr), dy_there.data(),
                                 y_there.data(), false, rows, cols) == cudaSuccess);
      require_near(dy_there.to_host(), dx, 0);
    }
  }
}

}  // namespace fanout::kernels
