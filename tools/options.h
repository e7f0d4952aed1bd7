// SPDX-License-Identifier: Apache-2.0
// The command line of `fanout`, read into plain structs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace fanout::tools {

/// The call is wrong; one line that says what is wrong and what is allowed.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class OptimizerKind { sgd, adam, adamw };
const char* name_of(OptimizerKind kind);
enum class Parallelism { none, data_parallel };

/// What `fanout train` takes where nothing is said.
double default_learning_rate(OptimizerKind kind);

/// `fanout train`. Device numbers are not negative and differ; whether the machine has them is checked by their user.
struct TrainOptions {
  std::string data = "digits";
  std::vector<std::int64_t> hidden = {512, 512};  // widths of the hidden layers
  std::int64_t epochs = 10;
  std::int64_t batch_size = 64;  // rows a step, over all devices
  OptimizerKind optimizer = OptimizerKind::sgd;
  double learning_rate = 0.05;  // 0.001 where adam or adamw is chosen and nothing is said
  double momentum = 0.9;        // of sgd
  Parallelism parallel = Parallelism::data_parallel;
  std::optional<std::vector<int>> devices;  // the first is the primary; none: all that the process sees
  std::string module_device;                // "cuda:N" or "cpu"; empty: the primary
  std::optional<int> output_device;         // none: the primary
  std::uint64_t seed = 0;
  bool profile = false;
  std::string json;  // a path, "-" for standard output, empty for none
};

/// What `fanout bench` measures.
enum class Subject { scatter, gather, broadcast, reduce, allreduce, replicate, p2p, kernels, step };
const char* name_of(Subject subject);
enum class InputMemory { pinned, pageable, device };

/// `fanout bench`. What a subject does not use keeps its default.
struct BenchOptions {
  Subject subject = Subject::step;
  std::optional<std::vector<int>> devices;  // the first is the primary; none: all that the process sees
  std::vector<std::size_t> sizes;           // bytes, ascending
  int dim = 0;
  InputMemory input = InputMemory::pinned;
  std::vector<std::int64_t> net = {784, 512, 512, 10};  // widths
  std::int64_t batch_size = 256;                        // rows a step, over all devices
  OptimizerKind optimizer = OptimizerKind::sgd;
  bool stages = false;
  std::optional<std::int64_t> windows;   // none: until they agree
  std::optional<double> window_seconds;  // none: the subject's own
  std::string json;                      // a path, "-" for standard output, empty for none
  std::string csv, plot;                 // paths, empty for none
};

/// `fanout devices`.
struct DevicesOptions {};

/// `--help` and `--version`: what to print, with its newline.
struct HelpText {
  std::string text;
};
struct VersionText {
  std::string text;
};

using Command = std::variant<TrainOptions, BenchOptions, DevicesOptions, HelpText, VersionText>;

/// Reads `fanout`'s arguments, of which argv[0] is ignored. Throws UsageError.
Command parse_command_line(int argc, const char* const* argv);

}  // namespace fanout::tools
