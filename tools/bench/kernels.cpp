// SPDX-License-Identifier: Apache-2.0
// `fanout bench kernels`: bytes a second of each kernel, by the bytes it must move, against a copy on the device.
#include <fmt/format.h>

#include <array>
#include <functional>
#include <nlohmann/json.hpp>

#include "kernels/activation.h"
#include "kernels/adam.h"
#include "kernels/arithmetic.h"
#include "kernels/bias.h"
#include "kernels/fill.h"
#include "kernels/layer_norm.h"
#include "kernels/reduce.h"
#include "kernels/sgd.h"
#include "kernels/softmax.h"
#include "kernels/transpose.h"
#include "runtime/device/context.h"
#include "runtime/device/error.h"
#include "runtime/tensor/tensor.h"
#include "tools/bench/bench.h"
#include "tools/bench/report.h"

namespace fanout::bench {
namespace {

constexpr double kWindowSeconds = 0.01;
constexpr std::int64_t kColumns = 256;

// Arrays of n floats, seen as [rows, columns] where a kernel wants a matrix.
struct Arrays {
  std::int64_t n, rows, columns;
  std::array<Tensor, 4> arrays;
  Tensor row_values, column_values;
  cudaStream_t stream;

  Arrays(Device device, std::int64_t elements)
      : n(elements), rows(elements / std::min(elements, kColumns)), columns(std::min(elements, kColumns)) {
    for (Tensor& array : arrays) array = full({n}, 0.5, DType::f32, device);
    row_values = full({2 * rows}, 0.5, DType::f32, device);
    column_values = full({columns}, 0.5, DType::f32, device);
    stream = compute_stream(device).handle;
  }
  float* at(std::size_t i) const { return arrays[i].data<float>(); }
};

struct Kernel {
  const char* name;
  int arrays_moved;  // reads and writes of n elements each
  std::function<cudaError_t(const Arrays&)> run;
  float expected;  // of the first element of array 0 after one run on arrays of 0.5; nan: it depends on what ran before
};

const std::vector<Kernel>& kernels() {
  static const std::vector<Kernel> all{
      {"copy", 2,
       [](const Arrays& a) {
         return cudaMemcpyAsync(a.at(0), a.at(1), static_cast<std::size_t>(a.n) * sizeof(float),
                                cudaMemcpyDeviceToDevice, a.stream);
       },
       0.5F},
      {"fill", 1, [](const Arrays& a) { return kernels::fill(a.stream, a.at(0), 2.0F, a.n); }, 2},
      {"add", 3,
       [](const Arrays& a) {
         return kernels::add(a.stream, a.at(0), static_cast<const float*>(a.at(1)), static_cast<const float*>(a.at(2)),
                             a.n);
       },
       1},
      {"relu", 2,
       [](const Arrays& a) { return kernels::relu(a.stream, a.at(0), static_cast<const float*>(a.at(1)), a.n); }, 0.5F},
      {"gelu", 2,
       [](const Arrays& a) { return kernels::gelu(a.stream, a.at(0), static_cast<const float*>(a.at(1)), a.n); },
       0.345731F},
      {"bias_relu", 2,
       [](const Arrays& a) {
         return kernels::bias_relu<float>(a.stream, a.at(0), a.at(1), a.column_values.data<float>(), a.rows, a.columns);
       },
       1},
      {"softmax", 2,
       [](const Arrays& a) {
         return kernels::softmax(a.stream, a.at(0), static_cast<const float*>(a.at(1)), a.rows, a.columns);
       },
       0},
      {"layer_norm", 2,
       [](const Arrays& a) {
         float* const mean = a.row_values.data<float>();
         return kernels::layer_norm(a.stream, a.at(0), mean, mean + a.rows, static_cast<const float*>(a.at(1)),
                                    static_cast<const float*>(a.column_values.data<float>()),
                                    static_cast<const float*>(a.column_values.data<float>()), 1e-5F, a.rows, a.columns);
       },
       0.5F},
      {"sum of rows", 1,
       [](const Arrays& a) {
         return kernels::sum_along<float>(a.stream, a.at(0), a.at(1), nullptr, 1, false, a.rows, a.columns, 1);
       },
       0},
      {"transpose", 2,
       [](const Arrays& a) {
         return kernels::transpose(a.stream, a.at(0), static_cast<const float*>(a.at(1)), a.rows, a.columns);
       },
       0.5F},
      {"sgd", 5,
       [](const Arrays& a) {
         return kernels::sgd_step(a.stream, a.at(0), a.at(1), static_cast<const float*>(a.at(2)),
                                  {.learning_rate = 0.5, .momentum = 0.5}, a.n);
       },
       0.5F - 0.5F * 0.75F},
      {"adam", 7,
       [](const Arrays& a) {
         return kernels::adam_step(a.stream, a.at(0), a.at(1), a.at(2), static_cast<const float*>(a.at(3)),
                                   {.learning_rate = 0, .step = 1000}, a.n);
       },
       0.5F},
  };
  return all;
}

// What array 0 must hold after one run on fresh arrays: a constant, but for the two kernels that divide by the columns.
float expected_of(const Kernel& kernel, const Arrays& arrays) {
  if (std::string_view(kernel.name) == "softmax") return 1 / static_cast<float>(arrays.columns);
  if (std::string_view(kernel.name) == "sum of rows") return 0.5F * static_cast<float>(arrays.columns);
  return kernel.expected;
}

std::int64_t wrong_elements(const Kernel& kernel, Device device, std::int64_t elements) {
  const Arrays fresh(device, elements);
  FANOUT_CHECK(kernel.run(fresh));
  std::vector<float> found = to_vector<float>(fresh.arrays[0]);
  if (std::string_view(kernel.name) == "sum of rows") found.resize(static_cast<std::size_t>(fresh.rows));
  const float expected = expected_of(kernel, fresh);
  std::int64_t wrong = 0;
  for (const float value : found) wrong += std::abs(value - expected) <= 1e-5F * std::max(1.0F, expected) ? 0 : 1;
  return wrong;
}

}  // namespace

void bench_kernels(const tools::BenchOptions& options, Report& report) {
  const Device device = chosen_devices(options)[0];
  const StopRule rule = stop_rule(options, kWindowSeconds);
  if (options.sizes.front() < kColumns * sizeof(float)) {
    throw tools::UsageError(fmt::format("bench kernels: {} bytes are too few; use 1K or more", options.sizes.front()));
  }
  report.say(fmt::format("kernels on {}; the size is that of one array", device.name()));
  report.begin({{"kernel", "/kernel"},
                {"size", "/size"},
                {"time us", "/out_of_place/time", 2},
                {"p95 us", "/p95_us", 2},
                {"spread %", "/spread_percent", 1},
                {"GB/s", "/out_of_place/alg_bw", 2},
                {"of copy %", "/percent_of_copy", 0},
                {"#wrong", "/out_of_place/nwrong"}});
  const DeviceGuard guard(device);
  for (const std::size_t bytes : options.sizes) {
    const auto elements = static_cast<std::int64_t>(bytes / sizeof(float)) / kColumns * kColumns;
    double copy_bandwidth = 0;
    for (const Kernel& kernel : kernels()) {
      const Arrays arrays(device, elements);
      const Timing timing = measure(
          {device}, [&] { FANOUT_CHECK(kernel.run(arrays)); }, rule);
      const double bandwidth =
          static_cast<double>(elements) * sizeof(float) * kernel.arrays_moved / timing.median * 1e-9;
      if (copy_bandwidth == 0) copy_bandwidth = bandwidth;
      nlohmann::ordered_json row{{"bench", "kernels"},
                                 {"kernel", kernel.name},
                                 {"size", bytes},
                                 {"count", elements},
                                 {"type", "float"},
                                 {"out_of_place",
                                  {{"time", timing.median * 1e6},
                                   {"alg_bw", bandwidth},
                                   {"bus_bw", nullptr},
                                   {"nwrong", wrong_elements(kernel, device, elements)}}},
                                 {"percent_of_copy", 100 * (bandwidth / copy_bandwidth)}};
      add_timing(row, timing);
      report.add(row);
    }
  }
  report.finish({"kernels, by the bytes they must move", "size of an array (bytes)", "GB/s", "/size",
                 "/out_of_place/alg_bw", "/kernel", true});
}

}  // namespace fanout::bench
