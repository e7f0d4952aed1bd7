// SPDX-License-Identifier: Apache-2.0
// `fanout bench scatter|gather|broadcast|reduce|allreduce`: the copies and sums of runtime/comm over sizes, checked,
// beside plain memcpy of the same bytes. Bandwidths are nccl-tests' (doc/PERFORMANCE.md): algbw is the size over the
// time, busbw what the busiest link must carry at least.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "runtime/comm/comm.h"
#include "runtime/comm/communicator.h"
#include "runtime/device/context.h"
#include "runtime/device/error.h"
#include "runtime/device/workers.h"
#include "runtime/tensor/copy.h"
#include "tools/bench/bench.h"
#include "tools/bench/raw_memcpy.h"
#include "tools/bench/report.h"

namespace fanout::bench {
namespace {

using Json = nlohmann::ordered_json;
using tools::BenchOptions;
using tools::InputMemory;
using tools::Subject;

constexpr double kWindowSeconds = 0.02;

// One collective at one size.
struct Case {
  std::function<void()> call;
  std::function<std::int64_t()> wrong;  // elements that differ from what they must be, after one more call
  double bus_factor;                    // busbw / algbw
  std::size_t copied_bytes;             // of the memcpy beside it: this buffer ...
  int copies = 1;                       // ... so many times
};

// [rows, columns] with `bytes` bytes of f32.
Shape shape_of(std::size_t bytes) {
  const auto elements = static_cast<std::int64_t>(bytes / sizeof(float));
  const std::int64_t columns = std::gcd(elements, std::int64_t{64});
  return {elements / columns, columns};
}

// Whole numbers, so that sums are exact.
std::vector<float> pattern(std::int64_t elements, int seed) {
  std::vector<float> values(static_cast<std::size_t>(elements));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(seed) * 13) % 1021);
  return values;
}

std::int64_t differences(const std::vector<float>& found, const std::vector<float>& expected) {
  if (found.size() != expected.size()) return static_cast<std::int64_t>(expected.size());
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < found.size(); ++i) wrong += found[i] == expected[i] ? 0 : 1;
  return wrong;
}

Tensor on(Device device, const std::vector<float>& values, const Shape& shape, HostMemory host_memory) {
  return copied_to(from_vector(values, shape), device, host_memory);
}

// The tensors of the ranks, each with its own numbers, and their sum.
struct Ranks {
  std::vector<Tensor> tensors;
  std::vector<float> sum;

  Ranks(const std::vector<Device>& devices, std::size_t bytes) {
    const Shape shape = shape_of(bytes);
    sum.resize(static_cast<std::size_t>(shape.elements()));
    for (std::size_t rank = 0; rank < devices.size(); ++rank) {
      const std::vector<float> values = pattern(shape.elements(), static_cast<int>(rank));
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
      tensors.push_back(on(devices[rank], values, shape, HostMemory::pageable));
    }
  }
};

// Columns [begin, begin + size) of every row, or rows, of a matrix.
std::vector<float> piece_of(const std::vector<float>& whole, const Shape& shape, int dim, std::int64_t begin,
                            std::int64_t size) {
  std::vector<float> piece;
  for (std::int64_t row = dim == 0 ? begin : 0; row < (dim == 0 ? begin + size : shape[0]); ++row) {
    const std::int64_t first = row * shape[1] + (dim == 0 ? 0 : begin);
    const std::int64_t count = dim == 0 ? shape[1] : size;
    piece.insert(piece.end(), whole.begin() + first, whole.begin() + first + count);
  }
  return piece;
}

Case scatter(const BenchOptions& options, const std::vector<Device>& devices, std::size_t bytes) {
  const Shape shape = shape_of(bytes);
  const std::vector<float> values = pattern(shape.elements(), 0);
  const bool from_host = options.input != InputMemory::device;
  const Tensor whole = on(from_host ? Device::host() : devices[0], values, shape,
                          options.input == InputMemory::pinned ? HostMemory::pinned : HostMemory::pageable);
  const auto call = [=, dim = options.dim] { return comm::scatter(whole, devices, {.dim = dim}); };
  const auto n = static_cast<double>(devices.size());
  return {[=] { (void)call(); },
          [=, dim = options.dim] {
            std::int64_t wrong = 0, begin = 0;
            for (const Tensor& piece : call()) {
              wrong += differences(to_vector<float>(piece), piece_of(values, shape, dim, begin, piece.shape()[dim]));
              begin += piece.shape()[dim];
            }
            return begin == shape[dim] ? wrong : shape.elements();
          },
          (n - 1) / n, from_host ? bytes : bytes - bytes / devices.size()};
}

Case gather(const BenchOptions& options, const std::vector<Device>& devices, std::size_t bytes) {
  const Shape shape = shape_of(bytes);
  const std::vector<float> values = pattern(shape.elements(), 0);
  const std::vector<Tensor> pieces =
      comm::scatter(on(devices[0], values, shape, HostMemory::pageable), devices, {.dim = options.dim});
  const auto call = [=, dim = options.dim] { return comm::gather(pieces, {.dim = dim, .destination = devices[0]}); };
  const auto n = static_cast<double>(devices.size());
  return {[=] { (void)call(); }, [=] { return differences(to_vector<float>(call()), values); }, (n - 1) / n, bytes};
}

Case broadcast(const std::vector<Device>& devices, std::size_t bytes) {
  const Shape shape = shape_of(bytes);
  const std::vector<float> values = pattern(shape.elements(), 0);
  const Tensor source = on(devices[0], values, shape, HostMemory::pageable);
  const auto call = [=] { return comm::broadcast(source, devices); };
  return {[=] { (void)call(); },
          [=] {
            std::int64_t wrong = 0;
            for (const Tensor& copy : call()) wrong += differences(to_vector<float>(copy), values);
            return wrong;
          },
          1, bytes, static_cast<int>(devices.size()) - 1};
}

Case reduce(const std::vector<Device>& devices, std::size_t bytes) {
  const auto ranks = std::make_shared<const Ranks>(devices, bytes);
  const auto call = [=] { return comm::reduce_add(ranks->tensors, devices[0]); };
  return {[=] { (void)call(); }, [=] { return differences(to_vector<float>(call()), ranks->sum); }, 1, bytes,
          static_cast<int>(devices.size()) - 1};
}

Case all_reduce(const std::vector<Device>& devices, std::size_t bytes) {
  const auto ranks = std::make_shared<const Ranks>(devices, bytes);
  std::vector<Tensor> sums;
  std::vector<const void*> sources;
  std::vector<void*> targets;
  for (const Tensor& tensor : ranks->tensors) {
    sums.push_back(empty_like(tensor));
    sources.push_back(tensor.raw_data());
    targets.push_back(sums.back().raw_data());
  }
  const auto call = [=] {
    Communicator& communicator = Communicator::of(devices);
    communicator.all_reduce(sources, targets, sums[0].elements(), DType::f32);
    communicator.wait_for_collectives();
  };
  const auto n = static_cast<double>(devices.size());
  return {call,
          [=] {
            call();
            std::int64_t wrong = 0;
            for (const Tensor& sum : sums) wrong += differences(to_vector<float>(sum), ranks->sum);
            return wrong;
          },
          2 * (n - 1) / n, bytes, static_cast<int>(devices.size()) - 1};
}

Case make(const BenchOptions& options, const std::vector<Device>& devices, std::size_t bytes) {
  switch (options.subject) {
    case Subject::scatter:
      return scatter(options, devices, bytes);
    case Subject::gather:
      return gather(options, devices, bytes);
    case Subject::broadcast:
      return broadcast(devices, bytes);
    case Subject::reduce:
      return reduce(devices, bytes);
    default:
      return all_reduce(devices, bytes);
  }
}

// Bytes a second of plain CUDA copies of 16 MiB in all, from or to every other device at once, queued by `lanes`
// threads: from pinned host memory, or from the primary, or to it.
double plain_bandwidth(const BenchOptions& options, const std::vector<Device>& devices, int lanes,
                       const StopRule& rule) {
  constexpr std::size_t kBytes = std::size_t{16} << 20;
  const bool to_primary = options.subject == Subject::gather || options.subject == Subject::reduce;
  const bool from_host = options.subject == Subject::scatter && options.input != InputMemory::device;
  std::vector<std::pair<Tensor, Tensor>> copies;  // target, source
  const std::size_t first = from_host ? 0 : 1;
  const auto share = static_cast<std::int64_t>(kBytes / (devices.size() - first));
  for (std::size_t i = first; i < devices.size(); ++i) {
    const Device near = from_host ? Device::host() : devices[0];
    const Tensor a = empty({share}, DType::u8, to_primary ? devices[i] : near, HostMemory::pinned);
    const Tensor b = empty({share}, DType::u8, to_primary ? near : devices[i]);
    copies.emplace_back(b, a);
  }
  const Timing timing = measure(
      devices,
      [&] {
        Workers::of_process().run(lanes, [&](int lane, int used) {
          for (auto i = static_cast<std::size_t>(lane); i < copies.size(); i += static_cast<std::size_t>(used)) {
            const auto& [target, source] = copies[i];
            if (source.device().is_host()) {
              copy_bytes(target.raw_data(), target.device(), source.raw_data(), source.device(), source.bytes());
            } else {
              push_bytes(target.raw_data(), target.device(), source.raw_data(), source.device(), source.bytes());
            }
          }
        });
      },
      rule);
  return static_cast<double>(share) * static_cast<double>(copies.size()) / timing.median;
}

std::string memory_text(InputMemory input) {
  return input == InputMemory::pinned     ? "pinned host memory"
         : input == InputMemory::pageable ? "pageable host memory"
                                          : "the primary";
}

}  // namespace

void bench_collective(const BenchOptions& options, Report& report) {
  const std::vector<Device> devices = chosen_devices(options);
  if (devices.size() < 2) {
    throw tools::UsageError(
        fmt::format("bench {} needs at least two devices; it has {}", tools::name_of(options.subject), names(devices)));
  }
  const StopRule rule = stop_rule(options, kWindowSeconds);
  const int lanes =
      works_on_host_threads(devices[0]) ? std::min(Workers::of_process().lanes(), static_cast<int>(devices.size())) : 1;
  const double limit = plain_bandwidth(options, devices, lanes, rule);
  const bool has_dim = options.subject == Subject::scatter || options.subject == Subject::gather;
  report.say(fmt::format("{} on {}{}{}", tools::name_of(options.subject), names(devices),
                         has_dim ? fmt::format(", dimension {}", options.dim) : "",
                         options.subject == Subject::scatter ? ", from " + memory_text(options.input) : ""));
  report.say(
      fmt::format("limit: {:.1f} GB/s, plain copies of 16 MiB over the same paths at once; memcpy with {} thread{}",
                  limit * 1e-9, lanes, lanes == 1 ? "" : "s"));
  report.begin({{"size", "/size"},
                {"count", "/count"},
                {"type", "/type"},
                {"time us", "/out_of_place/time", 1},
                {"min us", "/min_us", 1},
                {"p95 us", "/p95_us", 1},
                {"spread %", "/spread_percent", 1},
                {"algbw", "/out_of_place/alg_bw", 2},
                {"busbw", "/out_of_place/bus_bw", 2},
                {"of limit %", "/percent_of_limit", 0},
                {"memcpy", "/memcpy_bw", 2},
                {"of it %", "/percent_of_memcpy", 0},
                {"#wrong", "/out_of_place/nwrong"}});
  const bool sums = options.subject == Subject::reduce || options.subject == Subject::allreduce;
  for (const std::size_t bytes : options.sizes) {
    const Case work = make(options, devices, bytes);
    const Timing timing = measure(devices, work.call, rule);
    const Timing plain = measure_memcpy(lanes, work.copied_bytes, work.copies, rule);
    const double moved = static_cast<double>(work.copied_bytes) * work.copies;
    const double bandwidth = static_cast<double>(bytes) / timing.median * 1e-9;
    Json row{{"bench", tools::name_of(options.subject)},
             {"size", bytes},
             {"count", bytes / sizeof(float)},
             {"type", "float"},
             {"redop", sums ? "sum" : "none"},
             {"root", options.subject == Subject::allreduce ? -1 : 0},
             {"devices", devices.size()},
             {"dim", options.dim},
             {"out_of_place",
              {{"time", timing.median * 1e6},
               {"alg_bw", bandwidth},
               {"bus_bw", bandwidth * work.bus_factor},
               {"nwrong", work.wrong()}}},
             {"limit_bw", limit * 1e-9},
             {"percent_of_limit", 100 * moved / timing.median / limit},
             {"memcpy_bw", moved / plain.median * 1e-9},
             {"percent_of_memcpy", 100 * plain.median / timing.median}};
    add_timing(row, timing);
    report.add(row);
  }
  report.finish({fmt::format("{} on {} devices", tools::name_of(options.subject), devices.size()), "size (bytes)",
                 "bus bandwidth (GB/s)", "/size", "/out_of_place/bus_bw", "/bench", true});
}

}  // namespace fanout::bench
