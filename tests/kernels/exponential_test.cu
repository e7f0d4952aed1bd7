// SPDX-License-Identifier: Apache-2.0
#include "kernels/exponential.cuh"

#include "kernels/launch.cuh"
#include "tests/kernels/device_array.h"
#include "tests/kernels/values.h"

namespace fanout::kernels {
namespace {

// One thread, every so many elements.
__global__ void exponential_kernel(float* y, const float* x, std::int64_t n) {
  for (auto i : grid_stride(n)) y[i] = exponential(x[i]);
}

std::vector<float> exponentials(const std::vector<float>& x) {
  const DeviceArray<float> in(x);
  const auto out = DeviceArray<float>::unset(in.size());
  REQUIRE(launch<exponential_kernel>(nullptr, elementwise_shape(in.size()), out.data(), in.data(), in.size()) ==
          cudaSuccess);
  return out.to_host();
}

TEST_CASE("exponential is within 2 units in the last place from the smallest to the largest result") {
  std::vector<float> x;
  for (float value = -103.9f; value < 88.7f; value += 0.00137f) x.push_back(value);
  const auto y = exponentials(x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double exact = std::exp(static_cast<long double>(x[i]));
    const float rounded = static_cast<float>(exact);
    const long double unit = std::nextafter(rounded, INFINITY) - rounded;
    if (std::abs(y[i] - exact) <= 2 * unit) continue;
    FAIL("e^" << x[i] << " is " << y[i] << ", expected " << rounded);
  }
}

TEST_CASE("exponential has the library's special values") {
  require_same(exponentials({0, -0.0f, INFINITY, -INFINITY, NAN, 89, 1000, -110, -1e30f, 3e38f, 1e-30f}),
               {1, 1, INFINITY, 0, NAN, INFINITY, INFINITY, 0, 0, INFINITY, 1});
}

}  // namespace
}  // namespace fanout::kernels
