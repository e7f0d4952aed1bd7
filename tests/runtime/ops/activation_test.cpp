// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/activation.h"

#include <catch2/catch.hpp>

#include "runtime/ops/matmul.h"
#include "runtime/ops/shape.h"
#include "tests/runtime/gradcheck.h"

namespace fanout::testing {
namespace {

using Catch::Matchers::Contains;
using Unary = Tensor (*)(const Tensor&);

TEST_CASE("activations have their closed forms") {
  const Tensor x = random_tensor({3, 7}, 1, -3, 3);
  std::vector<double> relus, gelus, tanhs, sigmoids;
  for (double value : to_vector<double>(x)) {
    relus.push_back(std::max(value, 0.0));
    gelus.push_back(value / 2 * (1 + std::erf(value / std::sqrt(2.0))));
    tanhs.push_back(std::tanh(value));
    sigmoids.push_back(1 / (1 + std::exp(-value)));
  }
  require_close(to_vector<double>(relu(x)), relus);
  require_close(to_vector<double>(gelu(x)), gelus);
  require_close(to_vector<double>(tanh(x)), tanhs);
  require_close(to_vector<double>(sigmoid(x)), sigmoids);
}

TEST_CASE("softmax goes over the last dimension and does not overflow") {
  const Tensor x = on_device<double>({0, std::log(3), 1000, 1000, -1000, 0}, {3, 1, 2});
  require_close(to_vector<double>(softmax(x)), {0.25, 0.75, 0.5, 0.5, 0, 1});
  require_close(to_vector<double>(log_softmax(x)),
                {std::log(0.25), std::log(0.75), std::log(0.5), std::log(0.5), -1000, 0});
}

TEST_CASE("activations have the first and second derivatives that differences give") {
  const auto f = GENERATE(
      as<Unary>(), [](const Tensor& x) { return relu(x); }, static_cast<Unary>(gelu), static_cast<Unary>(tanh),
      static_cast<Unary>(sigmoid), static_cast<Unary>(softmax), static_cast<Unary>(log_softmax));
  check_derivatives([&](const Inputs& in) { return f(in[0]); }, {random_tensor({3, 5}, 1, -2, 2)});
  check_derivatives([&](const Inputs& in) { return f(transpose(in[0])); }, {random_tensor({3, 5}, 2, -2, 2)});
  check_derivatives([&](const Inputs& in) { return f(in[0]); }, {random_tensor({2, 1, 3}, 3, -2, 2)});
  check_derivatives([&](const Inputs& in) { return f(in[0]) * f(in[0]); }, {random_tensor({4}, 4, -2, 2)});
}

TEST_CASE("relu overwrites a temporary that nobody else sees") {
  const Tensor x = random_tensor({2, 3}, 1), weight = leaf_of(random_tensor({4, 3}, 2));
  Tensor hidden = linear(x, weight);
  const void* memory = hidden.raw_data();
  const Tensor y = relu(std::move(hidden));
  CHECK(y.raw_data() == memory);
  gradcheck([&](const Inputs& in) { return relu(linear(x, in[0])); }, {weight.detach()});
  gradgradcheck([&](const Inputs& in) { return relu(linear(x, in[0])); }, {weight.detach()});
}

TEST_CASE("relu leaves alone what somebody else still sees") {
  const Tensor weight = leaf_of(random_tensor({3, 3}, 1));
  const auto untouched = [](Tensor x) {
    const std::vector<double> before = to_vector<double>(x);
    const Tensor seen = x;
    const Tensor y = relu(std::move(x));
    return y.raw_data() != seen.raw_data() && to_vector<double>(seen) == before;
  };
  CHECK(untouched(random_tensor({2, 3}, 2)));

  Tensor saved_by_its_node = tanh(weight);
  const void* memory = saved_by_its_node.raw_data();
  CHECK(relu(std::move(saved_by_its_node)).raw_data() != memory);

  Tensor whole = random_tensor({4, 3}, 3);
  const std::vector<double> before = to_vector<double>(whole);
  relu(narrow(whole, 0, 1, 2));
  CHECK(to_vector<double>(whole) == before);

  const Intrusive<Storage> flat = Storage::allocate(Device(0), 512);
  const Tensor buffer = over_storage(flat, 0, {64}, DType::f64);
  copy(buffer, full({64}, -1, DType::f64, Device(0)));
  relu(over_storage(Storage::part(flat, 0, 128), 0, {16}, DType::f64));
  CHECK(to_vector<double>(buffer) == std::vector<double>(64, -1.0));
}

TEST_CASE("activations name what is wrong") {
  CHECK_THROWS_AS(relu(zeros({2}, DType::f32, Device::host())), PlacementError);
  CHECK_THROWS_WITH(gelu(zeros({2}, DType::i64, Device(0))), Contains("gelu") && Contains("i64"));
  CHECK_THROWS_WITH(softmax(zeros({}, DType::f32, Device(0))), Contains("at least one dimension"));
}

}  // namespace
}  // namespace fanout::testing
