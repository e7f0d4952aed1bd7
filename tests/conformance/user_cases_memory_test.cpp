// SPDX-License-Identifier: Apache-2.0
// What users met with memory and bytes: a full primary, whole batches on one device, weights sent again and again.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "runtime/device/context.h"
#include "runtime/nn/state_dict.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/optim/sgd.h"
#include "runtime/tensor/copy.h"
#include "tests/conformance/counted_bytes.h"
#include "tests/conformance/user_cases.h"

using namespace fanout;
using namespace fanout::test;

namespace {

// [rows, 2] → [rows, 100000]
Linear wide_layer() {
  manual_seed(11);
  Linear layer(2, 100000);
  to(layer, Device(0));
  return layer;
}

Tensor some_rows(std::int64_t rows) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows * 2; ++i) values.push_back(static_cast<float>(i % 5) - 2);
  return from_vector(values, {rows, 2});
}

std::vector<std::vector<float>> gradients_of(ModuleView module) {
  std::vector<std::vector<float>> gradients;
  for (const Tensor& parameter : parameters(module)) gradients.push_back(to_vector<float>(parameter.grad()));
  return gradients;
}

double largest_relative_difference(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  double largest = 0, scale = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[i].size(); ++j) {
      largest = std::max(largest, std::abs(static_cast<double>(a[i][j]) - b[i][j]));
      scale = std::max(scale, std::abs(static_cast<double>(b[i][j])));
    }
  }
  return largest / scale;
}

std::vector<double> peaks(const std::vector<Device>& devices, const std::function<void()>& step) {
  step();  // replicas and gradients are there now
  for (const Device device : devices) {
    synchronize(device);
    reset_peak(device);
  }
  step();
  std::vector<double> bytes;
  for (const Device device : devices)
    bytes.push_back(static_cast<double>(pool_bytes(device, cudaMemPoolAttrUsedMemHigh)));
  return bytes;
}

}  // namespace

TEST_CASE(
    "with outputs and losses left apart the devices' peaks are even, and the gradients are "
    "the same",
    "[case 55]") {
  Linear module = wide_layer();
  const Tensor x = some_rows(64);
  DataParallelOptions to_host;
  to_host.output_device = Device::host();
  DataParallel parallel(module, {0, 1, 2, 3}), onto_host(module, {0, 1, 2, 3}, to_host);
  const auto fresh = [&] { zero_grad(module); };

  const std::vector<double> gathered = peaks(parallel.devices(), [&] {
    fresh();
    mean(square(parallel(x))).backward();
  });
  const auto expected = gradients_of(module);
  const std::vector<double> apart = peaks(parallel.devices(), [&] {
    fresh();
    std::vector<Tensor> losses;
    for (const Tensor& output : parallel.apart(x)) losses.push_back(mean(square(output)));
    parallel.mean_over_rows(losses).backward();
  });
  CHECK(largest_relative_difference(gradients_of(module), expected) < 1e-5);
  const auto [least, most] = std::minmax_element(apart.begin(), apart.end());
  CHECK(*most < 1.1 * *least);
  CHECK(gathered[0] > 2 * gathered[1]);
  CHECK(gathered[0] > 2 * apart[0]);

  fresh();
  const Tensor on_host = onto_host(x);
  CHECK(on_host.device().is_host());
  mean(square(to(on_host, Device(1)))).backward();
  CHECK(largest_relative_difference(gradients_of(module), expected) < 1e-5);
}

TEST_CASE("losses of uneven pieces, with labels split beside them, have the mean and the gradients of the whole batch",
          "[case 55]") {
  Mlp module = mlp(3, 5, 4, Device(0)), alone = mlp(3, 5, 4, Device(0));
  DataParallel parallel(module, {0, 1, 2, 3});
  for (const std::int64_t rows : {10, 9, 2, 1}) {
    zero_grad(module);
    zero_grad(alone);
    const Tensor x = numbers({rows, 3}), targets = labels(rows, 4);
    const std::vector<Tensor> outputs = parallel.apart(x), pieces = parallel.scatter(targets);
    REQUIRE(outputs.size() == pieces.size());
    std::vector<Tensor> losses;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      CHECK(outputs[i].device() == Device(static_cast<int>(i)));
      losses.push_back(cross_entropy(outputs[i], pieces[i]));
    }
    const Tensor loss = parallel.mean_over_rows(losses);
    const Tensor expected = cross_entropy(alone(to(x, Device(0))), to(targets, Device(0)));
    CHECK(std::abs(item(loss) - item(expected)) < kTolerance);
    loss.backward();
    expected.backward();
    CHECK(gradient_difference(module, alone) < kTolerance);
  }
}

TEST_CASE("scatter gives each device its piece of a host batch and nothing more", "[case 56]") {
  constexpr std::size_t kMebibyte = std::size_t{1} << 20;
  const std::vector<Device> devices = devices_of({0, 1, 2, 3});
  const Tensor x = zeros({64 * kMebibyte / 256, 64}, DType::f32, Device::host());
  REQUIRE(x.bytes() == 64 * kMebibyte);
  std::vector<std::uint64_t> before;
  for (const Device device : devices) {
    synchronize(device);
    reset_peak(device);
    before.push_back(pool_bytes(device, cudaMemPoolAttrUsedMemCurrent));
  }
  const std::vector<Tensor> pieces = scatter(x, devices);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    CHECK(pieces[i].bytes() == 16 * kMebibyte);
    CHECK(pool_bytes(devices[i], cudaMemPoolAttrUsedMemHigh) - before[i] <= 17 * kMebibyte);
  }
}

namespace {

struct Normed {
  Linear first{6, 5, true, DType::f64};
  BatchNorm1d norm{5, {.dtype = DType::f64}};
  void visit(Visitor& member) {
    member("first", first);
    member("norm", norm);
  }
  Tensor operator()(const Tensor& x) const { return norm(first(x)); }
};

// A module in evaluation on 4 devices, and what a forward of it sends.
struct Sending {
  Normed module = seeded_on<Normed>(Device(0));
  DataParallel<Normed> parallel{module, {0, 1, 2, 3}};
  Tensor x = numbers({8, 6});

  Sending() {
    eval(module);
    (void)bytes_of_forward();
  }
  std::size_t bytes_of_forward() {
    counted_bytes().reset();
    const NoGrad no_graph;
    const std::vector<double> y = values_of(parallel(x)), expected = values_of(module(to(x, Device(0))));
    CHECK(largest_difference(y, expected) < kTolerance);
    return counted_bytes().broadcast;
  }
};

}  // namespace

TEST_CASE("parameters are sent once, and 100 forwards without a change send nothing and take no new memory",
          "[case 74]") {
  Normed module = seeded_on<Normed>(Device(0));
  eval(module);
  DataParallel parallel(module, {0, 1, 2, 3});
  const Tensor x = numbers({8, 6});
  const NoGrad no_graph;
  counted_bytes().reset();
  (void)parallel(x);
  std::size_t own_bytes = 0;
  for (const Tensor& parameter : parameters(module)) own_bytes += parameter.bytes();
  for (const Tensor& buffer : buffers(module)) own_bytes += buffer.bytes();
  CHECK(counted_bytes().broadcast >= 3 * own_bytes);
  CHECK(counted_bytes().broadcast <= 3 * (own_bytes + 7 * FlatLayout::kAlignmentBytes));
  for (int warm_up = 0; warm_up < 20; ++warm_up) (void)parallel(x);
  std::vector<std::uint64_t> reserved;
  for (const Device device : parallel.devices()) reserved.push_back(pool_bytes(device, cudaMemPoolAttrReservedMemHigh));
  counted_bytes().reset();
  for (int step = 0; step < 100; ++step) (void)parallel(x);
  CHECK(counted_bytes().broadcast == 0);
  for (std::size_t i = 0; i < reserved.size(); ++i)
    CHECK(pool_bytes(parallel.devices()[i], cudaMemPoolAttrReservedMemHigh) == reserved[i]);
}

TEST_CASE("every way to write a tensor sends it again, once, and only what lies in the written range", "[case 74]") {
  Sending sending;
  const Tensor weight = sending.module.first.weight;
  const std::size_t of_weight = 3 * FlatLayout::kAlignmentBytes;  // [5, 6] in f64 is 240 bytes
  const auto sends = [&](std::size_t expected, const std::function<void()>& write) {
    CHECK(sending.bytes_of_forward() == 0);
    write();
    CHECK(sending.bytes_of_forward() == expected);
    CHECK(sending.bytes_of_forward() == 0);
  };
  sends(of_weight, [&] { copy(weight, to(numbers({5, 6}, 3), Device(0))); });
  sends(of_weight, [&] { init::constant(weight, 0.5); });
  sends(of_weight, [&] { init::kaiming_uniform(weight); });
  sends(of_weight, [&] {
    const double value = 0.25;
    FANOUT_CHECK(cudaMemcpy(weight.data<double>(), &value, sizeof value, cudaMemcpyHostToDevice));
    FANOUT_CHECK(cudaDeviceSynchronize());  // pageable memory is only staged when the copy returns
    weight.count_write();
  });
  sends(0, [&] {  // the optimizer sends what it has updated, and nothing else
    Sgd optimizer({weight}, {.learning_rate = 0.1});
    sum(square(sending.parallel(sending.x))).backward();
    counted_bytes().reset();
    optimizer.step();
    CHECK(counted_bytes().broadcast == 3 * weight.bytes());
  });
  const Normed other = seeded_on<Normed>(Device(1));
  sends(3 * 7 * FlatLayout::kAlignmentBytes, [&] { load_state_dict(sending.module, state_dict(other)); });
}

TEST_CASE("statistics that BatchNorm writes in training are sent at the next forward, the parameters not",
          "[case 74]") {
  Sending sending;
  train(sending.module);
  {
    const NoGrad no_graph;
    (void)sending.parallel(sending.x);
  }
  eval(sending.module);
  CHECK(sending.bytes_of_forward() == 3 * 3 * FlatLayout::kAlignmentBytes);  // mean, variance, count
  CHECK(sending.bytes_of_forward() == 0);
}
