// SPDX-License-Identifier: Apache-2.0
// What users met with devices, their numbers and the primary. CUDA_VISIBLE_DEVICES is read once a process, so cases
// that set it run in a child.
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "runtime/autograd/backward.h"
#include "runtime/device/context.h"
#include "runtime/nn/state_dict.h"
#include "runtime/ops/arithmetic.h"
#include "runtime/optim/sgd.h"
#include "tests/conformance/user_cases.h"
#include "tests/platform/api/child_process.h"

using namespace fanout;
using namespace fanout::test;
using Catch::Matchers::Contains;

namespace {

DataParallelOptions checked_at_forward() {
  DataParallelOptions options;
  options.check_at_construction = false;
  return options;
}

std::string bus_id(int device) {
  char text[32] = {};
  FANOUT_CHECK(cudaDeviceGetPCIBusId(text, sizeof text, device));
  return text;
}

std::string run_child(const char* name, const Environment& environment) {
  const ChildResult child = run_in_child(name, environment);
  INFO(child.output);
  REQUIRE(child.exit_status == 0);
  return child.output;
}

}  // namespace

TEST_CASE("a module on another GPU is refused by name and count before any copy, and works once it is moved",
          "[case 1]") {
  Mlp module = mlp(4, 8, 3, Device(2));
  const std::string text =
      "module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of them on device: "
      "cuda:2\n4 of 4 parameters and buffers are elsewhere:\n  fc1.weight [8, 4] on cuda:2\n";
  CHECK_THROWS_WITH(DataParallel(module, {0, 1, 2}), Contains(text));
  DataParallel parallel(module, {0, 1, 2}, checked_at_forward());
  std::vector<std::uint64_t> used;
  for (int device = 0; device < 3; ++device) used.push_back(pool_bytes(Device(device), cudaMemPoolAttrUsedMemCurrent));
  CHECK_THROWS_WITH(parallel(numbers({6, 4})), Contains(text) && Contains("to(module, Device(0))") &&
                                                   Contains("putting it first: device_ids {2, 0, 1}"));
  for (int device = 0; device < 3; ++device)
    CHECK(pool_bytes(Device(device), cudaMemPoolAttrUsedMemCurrent) == used[static_cast<std::size_t>(device)]);
  CHECK(module.fc1.weight.device() == Device(2));
  to(module, Device(0));
  CHECK(parallel(numbers({6, 4})).shape() == Shape{6, 3});
}

TEST_CASE("the current device does not choose the primary, and the error says so", "[case 2]") {
  Mlp module = mlp(4, 8, 3, Device(1));
  const DeviceGuard guard(Device(1));
  CHECK_THROWS_WITH(DataParallel(module), Contains("on device cuda:0 (device_ids[0])") &&
                                              Contains("the current device (cuda:1) does not choose the primary; "
                                                       "device_ids[0] does"));
  DataParallel parallel(module, {1, 0, 2});
  CHECK(parallel(numbers({6, 4})).device() == Device(1));
  to(module, Device(0));
  CHECK(DataParallel(module).devices() == devices_of({0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_CASE(
    "a module may be wrapped on the host and moved afterwards, and the forward before that names parameter and host",
    "[case 4]") {
  Linear module(2, 2, true, DType::f64);
  DataParallel parallel(module, {0, 1});
  CHECK_THROWS_AS(parallel(numbers({10, 2})), PlacementError);
  CHECK_THROWS_WITH(parallel(numbers({10, 2})),
                    Contains("found one of them on device: cpu") && Contains("\n  weight [2, 2] on cpu\n"));
  to(parallel, Device(0));
  CHECK(parallel(numbers({10, 2})).shape() == Shape{10, 2});
}

TEST_CASE("moving a wrapped module is caught at the next forward, and inputs may lie on the host or any listed device",
          "[case 5]") {
  Mlp module = mlp(4, 8, 3, Device(0));
  DataParallel parallel(module, {0, 1});
  const Tensor x = numbers({6, 4});
  const std::vector<double> expected = values_of(parallel(x));
  for (const Device home : {Device(0), Device(1)}) {
    const Tensor output = parallel(to(x, home));
    CHECK(output.device() == Device(0));
    CHECK(values_of(output) == expected);
  }
  to(parallel, Device(1));
  CHECK_THROWS_WITH(parallel(x), Contains("on device cuda:0 (device_ids[0]) but found one of them on device: cuda:1"));
  CHECK(parallel.devices() == devices_of({0, 1}));
}

TEST_CASE("child: wrap by device numbers", "[.]") {
  Mlp module(4, 8, 3);
  for (const std::vector<int>& ids : {std::vector<int>{2, 3}, {0, 1, 2, 3}}) {
    try {
      DataParallel parallel(module, ids);
    } catch (const InvalidArgument& error) {
      std::puts(error.what());
    }
  }
  CHECK(pool_bytes(Device(0), cudaMemPoolAttrUsedMemHigh) == 0);
  if (device_count() < 2) return;
  to(module, Device(0));
  DataParallel parallel(module, {0, 1});
  CHECK(parallel(numbers({6, 4})).device() == Device(0));
  std::puts(("primary " + bus_id(0) + ", second " + bus_id(1)).c_str());
}
TEST_CASE("device ids count visible devices, and all bad ones are listed with the range and CUDA_VISIBLE_DEVICES",
          "[case 7]") {
  const std::string two = run_child("child: wrap by device numbers", {{"CUDA_VISIBLE_DEVICES", "2,3"}});
  CHECK_THAT(two, Contains("device ids 2 and 3 do not exist: this process sees 2 devices, ids 0 to 1 "
                           "(CUDA_VISIBLE_DEVICES=2,3)"));
  CHECK_THAT(two, Contains("primary " + bus_id(2) + ", second " + bus_id(3)));
  const std::string one =
      run_child("child: wrap by device numbers", {{"FANOUT_SIM_DEVICES", "1"}, {"CUDA_VISIBLE_DEVICES", nullptr}});
  CHECK_THAT(one, Contains("device ids 2 and 3 do not exist"));
  CHECK_THAT(one, Contains("device ids 1, 2 and 3 do not exist"));
  Mlp module(4, 8, 3);
  CHECK_THROWS_WITH(DataParallel(module, {0, 9, -1, 0}),
                    Contains("device ids -1 and 9 do not exist; device_ids lists 0 twice, at positions 0 and 3"));
}

TEST_CASE("child: change CUDA_VISIBLE_DEVICES after CUDA has started", "[.]") {
  REQUIRE(setenv("CUDA_VISIBLE_DEVICES", "0,1", 1) == 0);  // nothing before main has called CUDA
  CHECK(device_count() == 2);
  CHECK(visibility_note() == " (CUDA_VISIBLE_DEVICES=0,1)");
  REQUIRE(setenv("CUDA_VISIBLE_DEVICES", "1", 1) == 0);
  CHECK(device_count() == 2);
  CHECK(visibility_note() ==
        " (CUDA_VISIBLE_DEVICES was 0,1 when CUDA started; changing it to 1 afterwards has no effect)");
  CHECK_THROWS_WITH(require_device(Device(2)), Contains("ids 0 to 1 (CUDA_VISIBLE_DEVICES was 0,1 when CUDA started"));
  REQUIRE(unsetenv("CUDA_VISIBLE_DEVICES") == 0);
  CHECK(visibility_note() == " (CUDA_VISIBLE_DEVICES was 0,1 when CUDA started; removing it afterwards has no effect)");
}
TEST_CASE("child: set CUDA_VISIBLE_DEVICES after CUDA has started", "[.]") {
  const DeviceGuard first_call(Device(0));
  REQUIRE(setenv("CUDA_VISIBLE_DEVICES", "1", 1) == 0);
  CHECK(device_count() == 8);
  CHECK(visibility_note() ==
        " (CUDA_VISIBLE_DEVICES was not set when CUDA started; setting it to 1 afterwards has no effect)");
}
TEST_CASE("visibility is frozen at the first CUDA call, and notes say when the environment differs now", "[case 8]") {
  for (const char* name : {"child: change CUDA_VISIBLE_DEVICES after CUDA has started",
                           "child: set CUDA_VISIBLE_DEVICES after CUDA has started"})
    (void)run_child(name, {{"CUDA_VISIBLE_DEVICES", nullptr}, {"FANOUT_SIM_DEVICES", "8"}});
}

TEST_CASE("child: use a process without devices", "[.]") {
  CHECK(device_count() == 0);
  Mlp module(4, 8, 3);  // host tensors need no device
  CHECK(state_dict(module).size() == 4);
  const std::string text = "no CUDA-capable device is detected" + visibility_note();
  CHECK_THROWS_AS(DataParallel(module), NoDeviceError);
  CHECK_THROWS_WITH(DataParallel(module), text);
  CHECK_THROWS_WITH(DataParallel(module, {0}), text);
}
TEST_CASE("without a visible device the count is 0, and wrapping says that there is none and why", "[case 10]") {
  for (const char* value : {"", "-1"})
    (void)run_child("child: use a process without devices", {{"CUDA_VISIBLE_DEVICES", value}});
}

TEST_CASE("child: train on devices 3 and 2 alone", "[.]") {
  manual_seed(3);
  Mlp module = mlp(4, 8, 3, Device(3));
  const Mlp saved = clone(module);
  DataParallel parallel(module, {3, 2});
  Sgd optimizer(parameters(module), {.learning_rate = 0.1, .momentum = 0.9});
  sum(square(parallel(numbers({6, 4})))).backward();
  optimizer.step();
  load_state_dict(module, state_dict(saved));
  for (int device = 0; device < device_count(); ++device) {
    INFO("device " << device);
    CHECK(has_context(Device(device)) == (device == 3 || device == 2));
  }
  for (const int device : {0, 1, 4}) {
    INFO("device " << device);
    // The runtime's own context of a device raises this threshold; any pool memory would show in the peak.
    CHECK(pool_bytes(Device(device), cudaMemPoolAttrReleaseThreshold) == 0);
    CHECK(pool_bytes(Device(device), cudaMemPoolAttrReservedMemHigh) == 0);
    const DeviceGuard guard(Device{device});
    std::size_t free_bytes = 0, total_bytes = 0;
    FANOUT_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    CHECK(free_bytes == total_bytes);
  }
  for (const int device : {3, 2}) CHECK(pool_bytes(Device(device), cudaMemPoolAttrReleaseThreshold) > 0);
}
TEST_CASE("a device that is not listed gets no context and not one byte", "[case 11]") {
  (void)run_child("child: train on devices 3 and 2 alone", {});
}

TEST_CASE("a device that is listed twice is refused with its positions, and by NCCL too", "[case 13]") {
  Mlp module(4, 8, 3);
  CHECK_THROWS_WITH(DataParallel(module, {0, 0}),
                    Contains("device_ids lists 0 twice, at positions 0 and 1; each device "
                             "can hold one replica"));
  CHECK_THROWS_WITH(DataParallel(module, {0, 1, 0}), Contains("device_ids lists 0 twice, at positions 0 and 2"));
  CHECK_THROWS_AS(Communicator(devices_of({0, 0})), NcclError);
}

TEST_CASE("rows are split by sizes or by weights, as asked, and a size of 0 leaves a device idle", "[case 77]") {
  Mlp alone = mlp(3, 5, 2, Device(0)), wrapped = mlp(3, 5, 2, Device(0));
  const auto step_with = [&](const std::vector<std::int64_t>& sizes, const std::vector<double>& weights,
                             std::int64_t rows) {
    DataParallelOptions options;
    options.chunk_sizes = sizes;
    options.weights = weights;
    DataParallel parallel(wrapped, {0, 1, 2}, options);
    const Tensor x = numbers({rows, 3});
    zero_grad(alone);
    zero_grad(wrapped);
    const Tensor expected = alone(to(x, Device(0))), output = parallel(x);
    CHECK(largest_difference(values_of(output), values_of(expected)) < kTolerance);
    sum(square(expected)).backward();
    sum(square(output)).backward();
    CHECK(gradient_difference(alone, wrapped) < kTolerance);
    return parallel.piece_sizes();
  };
  using Sizes = std::vector<std::int64_t>;
  CHECK(step_with({6, 4, 2}, {}, 12) == Sizes{6, 4, 2});
  CHECK(step_with({}, {2, 1, 1}, 13) == Sizes{7, 3, 3});  // shares 6.5, 3.25, 3.25: the largest remainder gets the row
  CHECK(step_with({0, 5, 3}, {}, 8) == Sizes{0, 5, 3});
  CHECK(step_with({5, 0, 3}, {}, 8) == Sizes{5, 0, 3});
  CHECK_THROWS_WITH(step_with({6, 4, 2}, {}, 13),
                    "scatter: chunk_sizes [6, 4, 2] sum to 12, but input[0] has 13 rows along dimension 0");
}

namespace {

// Which device was current in forward and in backward, by the device of the piece.
struct CurrentDevices {
  std::mutex lock;
  std::map<int, int> in_forward, in_backward;
};

struct RecordingNode final : Node {
  using Node::Node;
  CurrentDevices* seen = nullptr;
  bool fail = false;
  std::string_view name() const override { return "recording"; }
  void backward(BackwardPass& pass) override {
    if (fail) throw std::runtime_error("backward failed");
    const Tensor gradient = take_gradient();
    {
      const std::lock_guard guard(seen->lock);
      seen->in_backward[gradient.device().index()] = current_device();
    }
    pass.give(*this, 0, gradient);
  }
};

struct Recording {
  Linear layer{1, 1, true, DType::f64};
  CurrentDevices* seen = nullptr;
  bool fail = false;
  void visit(Visitor& member) { member("layer", layer); }
  Tensor operator()(const Tensor& x) const {
    const Tensor y = layer(x), result = y.detach();
    if (auto* node = record<RecordingNode>(result, y)) {
      node->seen = seen;
      node->fail = fail;
    }
    const std::lock_guard guard(seen->lock);
    seen->in_forward[x.device().index()] = current_device();
    return result;
  }
};

}  // namespace

TEST_CASE("forward and backward of an operator run with its piece's device as the current one", "[case 79]") {
  for (const ParallelApply mode : all_modes()) {
    for (const std::vector<int>& ids : {std::vector<int>{0, 1, 2, 3}, {3, 1}}) {
      Recording module = seeded_on<Recording>(Device(ids[0]));
      CurrentDevices seen;
      module.seen = &seen;
      DataParallel parallel(module, ids, with_mode(mode));
      const DeviceGuard guard(Device(2));
      sum(parallel(numbers({4, 1}))).backward();
      std::map<int, int> own;
      for (const int id : ids) own[id] = id;
      CHECK(seen.in_forward == own);
      CHECK(seen.in_backward == own);
      CHECK(current_device() == 2);
      module.fail = true;
      const Tensor loss = sum(parallel(numbers({4, 1})));
      CHECK_THROWS_WITH(loss.backward(), Contains("backward failed"));
      CHECK(current_device() == 2);
    }
  }
}
