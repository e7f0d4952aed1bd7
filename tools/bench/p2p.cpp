// SPDX-License-Identifier: Apache-2.0
// `fanout bench p2p`: copies between every two devices, with peer access and without, and the latency of 16 bytes.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/device/context.h"
#include "runtime/device/error.h"
#include "tools/bench/bench.h"
#include "tools/bench/report.h"

namespace fanout::bench {
namespace {

constexpr double kWindowSeconds = 0.01;
constexpr std::size_t kLatencyBytes = 16;

// Memory of one device, outside the pools: peer access of pools is another matter.
class DeviceBuffer {
 public:
  DeviceBuffer(Device device, std::size_t bytes) : device_(device) {
    const DeviceGuard guard(device);
    FANOUT_CHECK(cudaMalloc(&memory_, bytes));
  }
  ~DeviceBuffer() { detail::report_unreleased(cudaFree(memory_), "cudaFree"); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  void* memory() const { return memory_; }
  Device device() const { return device_; }

 private:
  Device device_;
  void* memory_ = nullptr;
};

// Access of `from` to the memory of `to`, as wanted while this lives, then as before. False where there can be none.
class PeerAccess {
 public:
  PeerAccess(Device from, Device to, bool wanted) : from_(from), to_(to) {
    int possible = 0;
    FANOUT_CHECK(cudaDeviceCanAccessPeer(&possible, from.index(), to.index()));
    if (possible == 0) return;
    const DeviceGuard guard(from);
    const cudaError_t code = cudaDeviceEnablePeerAccess(to.index(), 0);
    was_on_ = code == cudaErrorPeerAccessAlreadyEnabled;
    if (was_on_) (void)cudaGetLastError();
    if (!was_on_) FANOUT_CHECK(code);
    is_on_ = true;
    if (!wanted) set(false);
  }
  ~PeerAccess() {
    try {
      set(was_on_);
    } catch (const std::exception&) {
      detail::report_unreleased(cudaErrorUnknown, "restoring peer access");
    }
  }
  PeerAccess(const PeerAccess&) = delete;
  PeerAccess& operator=(const PeerAccess&) = delete;
  bool is_on() const { return is_on_; }

 private:
  void set(bool on) {
    if (on == is_on_) return;
    const DeviceGuard guard(from_);
    FANOUT_CHECK(on ? cudaDeviceEnablePeerAccess(to_.index(), 0) : cudaDeviceDisablePeerAccess(to_.index()));
    is_on_ = on;
  }

  Device from_, to_;
  bool was_on_ = false, is_on_ = false;
};

Timing copy_time(const DeviceBuffer& target, const DeviceBuffer& source, std::size_t bytes, const StopRule& rule) {
  const DeviceGuard guard(target.device());
  return measure(
      {target.device(), source.device()},
      [&] {
        FANOUT_CHECK(cudaMemcpyPeerAsync(target.memory(), target.device().index(), source.memory(),
                                         source.device().index(), bytes, compute_stream(target.device()).handle));
      },
      rule);
}

// How many bytes of a copy differ from what was written at its source.
std::int64_t wrong_bytes(const DeviceBuffer& target, const DeviceBuffer& source, std::size_t bytes) {
  std::vector<unsigned char> sent(bytes), received(bytes);
  for (std::size_t i = 0; i < bytes; ++i) sent[i] = static_cast<unsigned char>((i * 31 + i / 251) % 256);
  {
    const DeviceGuard guard(source.device());
    FANOUT_CHECK(cudaMemcpy(source.memory(), sent.data(), bytes, cudaMemcpyHostToDevice));
    FANOUT_CHECK(cudaDeviceSynchronize());
  }
  const DeviceGuard guard(target.device());
  FANOUT_CHECK(cudaMemcpyPeerAsync(target.memory(), target.device().index(), source.memory(), source.device().index(),
                                   bytes, compute_stream(target.device()).handle));
  compute_stream(target.device()).synchronize();
  FANOUT_CHECK(cudaMemcpy(received.data(), target.memory(), bytes, cudaMemcpyDeviceToHost));
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < bytes; ++i) wrong += sent[i] == received[i] ? 0 : 1;
  return wrong;
}

}  // namespace

void bench_p2p(const tools::BenchOptions& options, Report& report) {
  const std::vector<Device> devices = chosen_devices(options);
  if (devices.size() < 2) {
    throw tools::UsageError(fmt::format("bench p2p needs at least two devices; it has {}", names(devices)));
  }
  const StopRule rule = stop_rule(options, kWindowSeconds);
  report.say(fmt::format("copies between every two of {}", names(devices)));
  report.begin({{"source", "/source"},
                {"target", "/target"},
                {"size", "/size"},
                {"peer", "/peer_access"},
                {"time us", "/out_of_place/time", 2},
                {"p95 us", "/p95_us", 2},
                {"spread %", "/spread_percent", 1},
                {"GB/s", "/out_of_place/alg_bw", 2},
                {"16 B us", "/latency_us", 2},
                {"#wrong", "/out_of_place/nwrong"}});
  const std::size_t bytes = options.sizes.back();
  const std::size_t count = devices.size();
  std::vector<double> matrix(count * count);
  for (std::size_t source = 0; source < count; ++source) {
    for (std::size_t target = 0; target < count; ++target) {
      if (source == target) continue;
      const DeviceBuffer from(devices[source], bytes), to(devices[target], bytes);
      for (const bool wanted : {true, false}) {
        const PeerAccess access(devices[target], devices[source], wanted);
        if (access.is_on() != wanted) continue;  // there is none to switch on
        const Timing timing = copy_time(to, from, bytes, rule);
        const Timing latency = copy_time(to, from, std::min(bytes, kLatencyBytes), rule);
        const double bandwidth = static_cast<double>(bytes) / timing.median * 1e-9;
        if (wanted || matrix[source * count + target] == 0) matrix[source * count + target] = bandwidth;
        nlohmann::ordered_json row{{"bench", "p2p"},
                                   {"source", devices[source].name()},
                                   {"target", devices[target].name()},
                                   {"pair", devices[source].name() + " to " + devices[target].name()},
                                   {"size", bytes},
                                   {"peer_access", wanted ? "on" : "off"},
                                   {"out_of_place",
                                    {{"time", timing.median * 1e6},
                                     {"alg_bw", bandwidth},
                                     {"bus_bw", bandwidth},
                                     {"nwrong", wrong_bytes(to, from, bytes)}}},
                                   {"latency_us", latency.median * 1e6}};
        add_timing(row, timing);
        report.add(row);
      }
    }
  }
  report.say("GB/s, from the device at the left to the one above");
  std::string head = fmt::format("{:>10}", "");
  for (const Device device : devices) head += fmt::format("{:>10}", device.name());
  report.say(head);
  for (std::size_t source = 0; source < count; ++source) {
    std::string line = fmt::format("{:>10}", devices[source].name());
    for (std::size_t target = 0; target < count; ++target) {
      line += source == target ? fmt::format("{:>10}", "-") : fmt::format("{:>10.2f}", matrix[source * count + target]);
    }
    report.say(line);
  }
  report.finish({fmt::format("copies of {} bytes between devices", bytes), "", "GB/s", "/pair", "/out_of_place/alg_bw",
                 "/peer_access"});
}

}  // namespace fanout::bench
