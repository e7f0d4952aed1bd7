// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/dropout.h"

#include <catch2/catch.hpp>

#include <algorithm>

#include "runtime/ops/shape.h"
#include "runtime/tensor/random.h"
#include "tests/runtime/gradcheck.h"

namespace fanout::testing {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("dropout keeps 1 - p of the elements, scaled, and is the identity when not training") {
  manual_seed(7);
  const Tensor x = full({100, 101}, 3, DType::f64, Device(0));
  const std::vector<double> y = to_vector<double>(dropout(x, 0.25, true));
  const auto kept = std::count(y.begin(), y.end(), 4.0), dropped = std::count(y.begin(), y.end(), 0.0);
  CHECK(kept + dropped == 10100);
  CHECK(std::abs(static_cast<double>(kept) / 10100 - 0.75) < 0.02);
  CHECK(dropout(x, 0.25, false).handle() == x.handle());
  CHECK(dropout(x, 0, true).handle() == x.handle());
  CHECK(to_vector<double>(dropout(x, 1, true)) == std::vector<double>(10100, 0.0));
}

TEST_CASE("a seed repeats the masks, one call after the other and device by device") {
  const Tensor x = full({101}, 1, DType::f32, Device(0));
  manual_seed(3);
  const auto first = to_vector<float>(dropout(x, 0.5, true)), second = to_vector<float>(dropout(x, 0.5, true));
  const auto elsewhere = to_vector<float>(dropout(to(x, Device(1)), 0.5, true));
  CHECK(first != second);
  CHECK(first != elsewhere);
  manual_seed(3);
  CHECK(to_vector<float>(dropout(x, 0.5, true)) == first);
  CHECK(to_vector<float>(dropout(x, 0.5, true)) == second);
  CHECK(to_vector<float>(dropout(to(x, Device(1)), 0.5, true)) == elsewhere);
}

TEST_CASE("dropout has the first and second derivatives that differences give") {
  const auto seeded = [](const Tensor& x, double p) {
    manual_seed(11);
    return dropout(x, p, true);
  };
  const double p = GENERATE(0.5, 1.0);
  check_derivatives([&](const Inputs& in) { return seeded(in[0], p); }, {random_tensor({3, 5}, 1)});
  check_derivatives([&](const Inputs& in) { return square(seeded(transpose(in[0]), p)); }, {random_tensor({3, 5}, 2)});
}

TEST_CASE("dropout refuses a p that is no probability") {
  const Tensor x = full({2}, 1, DType::f32, Device(0));
  CHECK_THROWS_WITH(dropout(x, -0.1, true), Contains("dropout: p is -0.1; it must be in [0, 1]"));
  CHECK_THROWS_AS(dropout(x, 1.5, false), InvalidArgument);
  CHECK_THROWS_AS(dropout(x, std::nan(""), true), InvalidArgument);
  CHECK_THROWS_AS(dropout(zeros({2}, DType::f32, Device::host()), 0.5, true), PlacementError);
}

}  // namespace
}  // namespace fanout::testing
