// SPDX-License-Identifier: Apache-2.0
// `fanout bench replicate`: what it takes to bring the replicas of a module up to date when all of it has changed, when
// nothing has, and when it is 2,000 small tensors.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/device/workers.h"
#include "runtime/nn/module.h"
#include "runtime/nn/move.h"
#include "runtime/parallel/replicate.h"
#include "tools/bench/bench.h"
#include "tools/bench/raw_memcpy.h"
#include "tools/bench/report.h"

namespace fanout::bench {
namespace {

constexpr double kWindowSeconds = 0.02;
constexpr std::size_t kSmallTensors = 2000, kSmallBytes = 1024;

// A module that is nothing but parameters.
struct Weights {
  std::vector<Parameter> tensors;
  Weights(std::size_t count, std::size_t bytes) {
    for (std::size_t i = 0; i < count; ++i)
      tensors.emplace_back(Shape{static_cast<std::int64_t>(bytes / sizeof(float))});
  }
  void visit(Visitor& member) { member("tensors", tensors); }
};

// A module of `count` tensors of `bytes` bytes each, and its replicas.
class Replicas {
 public:
  Replicas(const std::vector<Device>& devices, std::size_t count, std::size_t bytes) : module_(count, bytes) {
    for (Parameter& tensor : module_.tensors) {
      for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.data<float>()[i] = static_cast<float>(i % 1021);
    }
    to(module_, devices[0]);
    set_ = std::make_unique<ReplicaSet>(module_, devices, std::size_t{1} << 20);
    for (std::size_t member = 0; member < devices.size(); ++member) members_.push_back(member);
  }

  void change() {
    for (const Parameter& tensor : module_.tensors) tensor.count_write();
  }
  /// Bytes sent.
  std::size_t update() {
    Communicator& communicator = set_->communicator(members_);
    const std::size_t sent = set_->parameters().send_changes(members_, communicator);
    if (sent > 0) communicator.wait_for_collectives();
    return sent;
  }
  std::size_t bytes() const { return set_->parameters().layout().bytes(); }
  std::int64_t wrong() {
    std::int64_t wrong = 0;
    for (std::size_t member = 1; member < members_.size(); ++member) {
      for (std::size_t index = 0; index < module_.tensors.size(); ++index) {
        const std::vector<float> copy = to_vector<float>(set_->parameters().tensor(member, index));
        for (std::size_t i = 0; i < copy.size(); ++i) wrong += copy[i] == static_cast<float>(i % 1021) ? 0 : 1;
      }
    }
    return wrong;
  }

 private:
  Weights module_;
  std::unique_ptr<ReplicaSet> set_;
  Members members_;
};

}  // namespace

void bench_replicate(const tools::BenchOptions& options, Report& report) {
  const std::vector<Device> devices = chosen_devices(options);
  if (devices.size() < 2) {
    throw tools::UsageError(fmt::format("bench replicate needs at least two devices; it has {}", names(devices)));
  }
  const StopRule rule = stop_rule(options, kWindowSeconds);
  const int lanes =
      works_on_host_threads(devices[0]) ? std::min(Workers::of_process().lanes(), static_cast<int>(devices.size())) : 1;
  report.say(fmt::format("replicate from {} to {} replica{}; memcpy with {} thread{}", devices[0].name(),
                         devices.size() - 1, devices.size() == 2 ? "" : "s", lanes, lanes == 1 ? "" : "s"));
  report.begin({{"size", "/size"},
                {"tensors", "/tensors"},
                {"state", "/state"},
                {"sent", "/sent_bytes"},
                {"time us", "/out_of_place/time", 2},
                {"p95 us", "/p95_us", 1},
                {"spread %", "/spread_percent", 1},
                {"algbw", "/out_of_place/alg_bw", 2},
                {"memcpy", "/memcpy_bw", 2},
                {"of it %", "/percent_of_memcpy", 0},
                {"#wrong", "/out_of_place/nwrong"}});
  const int copies = static_cast<int>(devices.size()) - 1;
  const auto run = [&](std::size_t count, std::size_t bytes_each) {
    Replicas replicas(devices, count, bytes_each);
    (void)replicas.update();
    for (const bool changed : {true, false}) {
      std::size_t sent = 0;
      const Timing timing = measure(
          devices,
          [&] {
            if (changed) replicas.change();
            sent = replicas.update();
          },
          rule);
      nlohmann::ordered_json row{
          {"bench", "replicate"},
          {"size", replicas.bytes()},
          {"tensors", count},
          {"state", changed ? "changed" : "unchanged"},
          {"devices", devices.size()},
          {"sent_bytes", sent},
          {"out_of_place",
           {{"time", timing.median * 1e6}, {"alg_bw", nullptr}, {"bus_bw", nullptr}, {"nwrong", replicas.wrong()}}}};
      if (changed) {
        const Timing plain = measure_memcpy(lanes, replicas.bytes(), copies, rule);
        const double bandwidth = static_cast<double>(replicas.bytes()) / timing.median * 1e-9;
        row["out_of_place"]["alg_bw"] = row["out_of_place"]["bus_bw"] = bandwidth;
        row["memcpy_bw"] = static_cast<double>(replicas.bytes()) / plain.median * 1e-9;
        row["percent_of_memcpy"] = 100 * plain.median / timing.median;
      }
      add_timing(row, timing);
      report.add(row);
    }
  };
  for (const std::size_t bytes : options.sizes) run(1, bytes);
  run(kSmallTensors, kSmallBytes);
  report.finish({fmt::format("replicas brought up to date, {} devices", devices.size()), "size (bytes)",
                 "bandwidth to each replica (GB/s)", "/size", "/out_of_place/alg_bw", "/state", true});
}

}  // namespace fanout::bench
