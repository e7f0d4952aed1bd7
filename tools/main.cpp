// SPDX-License-Identifier: Apache-2.0
// The `fanout` command: reads the call, runs it, and turns failures into one message and an exit status.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <variant>

#include "models/datasets/dataset.h"
#include "runtime/comm/communicator.h"
#include "runtime/device/context.h"
#include "runtime/device/error.h"
#include "tools/bench/bench.h"
#include "tools/devices.h"
#include "tools/options.h"
#include "tools/train.h"

namespace {

namespace tools = fanout::tools;

// Whatever happened: what is still held afterwards was leaked.
struct ReleaseAtEnd {
  ~ReleaseAtEnd() {
    fanout::Communicator::release_all();
    fanout::release_devices();
  }
};

struct Run {
  void operator()(const tools::TrainOptions& options) const { tools::train(options); }
  void operator()(const tools::BenchOptions& options) const { fanout::bench::run(options); }
  void operator()(const tools::DevicesOptions&) const { tools::print_devices(); }
  void operator()(const tools::HelpText& help) const { fmt::print("{}", help.text); }
  void operator()(const tools::VersionText& version) const { fmt::print("{}", version.text); }
};

constexpr const char* kWithoutDevice =
    "A machine without a GPU runs fanout on simulated ones: start ./fanout, which builds that by itself, or configure "
    "with "
    "-DFANOUT_PLATFORM=sim. With a GPU, look at its driver (nvidia-smi) and at CUDA_VISIBLE_DEVICES.";

int report(const char* text, int status) {
  fmt::print(stderr, "fanout: {}\n", text);
  return status;
}

}  // namespace

// Exit status: 0 fine, 1 it failed, 2 the call was wrong.
int main(int argc, char** argv) {
  const ReleaseAtEnd release;
  try {
    std::visit(Run{}, tools::parse_command_line(argc, argv));
    return 0;
  } catch (const tools::UsageError& error) {
    return report(error.what(), 2);
  } catch (const fanout::models::DatasetNameError& error) {
    return report(error.what(), 2);
  } catch (const fanout::NoDeviceError& error) {
    return report(fmt::format("{}\n{}", error.what(), kWithoutDevice).c_str(), 1);
  } catch (const std::exception& error) {
    return report(error.what(), 1);
  }
}
