// SPDX-License-Identifier: Apache-2.0
#include "tools/options.h"

#include <catch2/catch.hpp>
#include <sstream>

namespace fanout::tools {
namespace {

using Arguments = std::vector<const char*>;

Command parse(Arguments arguments) {
  arguments.insert(arguments.begin(), "/somewhere/fanout");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

TrainOptions train(Arguments arguments) {
  arguments.insert(arguments.begin(), "train");
  return std::get<TrainOptions>(parse(arguments));
}

BenchOptions bench(Arguments arguments) {
  arguments.insert(arguments.begin(), "bench");
  return std::get<BenchOptions>(parse(arguments));
}

std::string error_of(const Arguments& arguments) {
  try {
    parse(arguments);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

std::string train_error(Arguments arguments) {
  arguments.insert(arguments.begin(), "train");
  return error_of(arguments);
}

// The error for each of `values` of one option must be "OPTION 'VALUE': expected EXPECTED".
void check_refused(const char* option, const Arguments& values, const std::string& expected) {
  for (const char* value : values) {
    CHECK(train_error({option, value}) == std::string(option) + " '" + value + "': expected " + expected);
  }
}

const std::string kTakes =
    "--data, --hidden, --epochs, --batch-size, --optimizer, --learning-rate, --momentum, --parallel, --devices, "
    "--module-device, --output-device, --seed, --profile, --json, --help";

}  // namespace

TEST_CASE("train without options trains on the digits with all devices") {
  const TrainOptions options = train({});
  CHECK(options.data == "digits");
  CHECK(options.hidden == std::vector<std::int64_t>{512, 512});
  CHECK(options.epochs == 10);
  CHECK(options.batch_size == 64);
  CHECK(options.optimizer == OptimizerKind::sgd);
  CHECK(options.learning_rate == 0.05);
  CHECK(options.momentum == 0.9);
  CHECK(options.parallel == Parallelism::data_parallel);
  CHECK_FALSE(options.devices);
  CHECK(options.module_device.empty());
  CHECK_FALSE(options.output_device);
  CHECK(options.seed == 0);
  CHECK(options.json.empty());
}

TEST_CASE("train takes every option, with a blank or an equals sign") {
  const TrainOptions options = train({"--data",
                                      "mnist:/a b=c",
                                      "--hidden=64,1,65536",
                                      "--epochs",
                                      "1000000",
                                      "--batch-size=1",
                                      "--optimizer",
                                      "sgd",
                                      "--learning-rate=1e-3",
                                      "--momentum",
                                      "0",
                                      "--parallel=dp",
                                      "--devices",
                                      "2,0,1",
                                      "--module-device=cuda:2",
                                      "--output-device",
                                      "3",
                                      "--seed=18446744073709551615",
                                      "--json",
                                      "-"});
  CHECK(options.data == "mnist:/a b=c");
  CHECK(options.hidden == std::vector<std::int64_t>{64, 1, 65536});
  CHECK(options.epochs == 1000000);
  CHECK(options.batch_size == 1);
  CHECK(options.optimizer == OptimizerKind::sgd);
  CHECK(options.learning_rate == 0.001);
  CHECK(options.momentum == 0);
  CHECK(options.parallel == Parallelism::data_parallel);
  CHECK(options.devices == std::vector<int>{2, 0, 1});
  CHECK(options.module_device == "cuda:2");
  CHECK(options.output_device == 3);
  CHECK(options.seed == UINT64_MAX);
  CHECK(options.json == "-");

  CHECK_FALSE(options.profile);
  CHECK(train({"--profile"}).profile);
  CHECK(train({"--module-device", "cpu"}).module_device == "cpu");
  CHECK(train({"--json", "out.jsonl"}).json == "out.jsonl");
  CHECK(train({"--data", "[a,\"b\"]"}).data == "[a,\"b\"]");
  CHECK(train({"--learning-rate", "1000"}).learning_rate == 1000);
}

TEST_CASE("train chooses the learning rate by the optimizer unless it is given") {
  CHECK(train({"--optimizer", "sgd"}).learning_rate == 0.05);
  CHECK(train({"--optimizer", "adam"}).optimizer == OptimizerKind::adam);
  CHECK(train({"--optimizer", "adam"}).learning_rate == 0.001);
  CHECK(train({"--optimizer", "adamw"}).optimizer == OptimizerKind::adamw);
  CHECK(train({"--optimizer", "adamw"}).learning_rate == 0.001);
  CHECK(train({"--learning-rate", "0.5", "--optimizer", "adam"}).learning_rate == 0.5);
}

TEST_CASE("train refuses momentum for an optimizer that has none") {
  CHECK(train_error({"--momentum", "0.5", "--optimizer", "adam"}) ==
        "--momentum is only for --optimizer sgd; adam and adamw have none");
}

TEST_CASE("train refuses several devices when nothing is parallel") {
  CHECK(train_error({"--parallel", "none", "--devices", "0,2"}) ==
        "--parallel none trains on one device; --devices names 2: 0,2");
  const TrainOptions options = train({"--parallel", "none", "--devices", "2"});
  CHECK(options.parallel == Parallelism::none);
  CHECK(options.devices == std::vector<int>{2});
}

TEST_CASE("train says what is wrong with a value and what is allowed") {
  const std::string count = "a whole number 1 to 1000000";
  check_refused("--data", {""}, "digits, mnist:DIR or synthetic:ROWSxFEATURES");
  check_refused("--hidden", {"", "x", "0", "-1", "64,", ",64", "64,,64", "64 64", "64, 64", "65537", "1.5"},
                "1 to 64 widths, each 1 to 65536, separated by commas, such as 512,512");
  check_refused("--epochs", {"", "-1", "0", "x", "1000001", "1.5", "+1", " 1", "1 ", "99999999999999999999"}, count);
  check_refused("--batch-size", {"0", "-64", "1e3", "1000001"}, count);
  check_refused("--optimizer", {"", "foo", "SGD", "sgd "}, "sgd, adam or adamw");
  check_refused("--learning-rate", {"", "nan", "-nan", "inf", "-0.1", "0", "1000.1", "0.1x", "0,1", "1e-999", "1e999"},
                "a number above 0, at most 1000");
  check_refused("--momentum", {"", "nan", "1", "-0.1", "x"}, "a number from 0 to below 1");
  check_refused("--parallel", {"", "ddp"}, "dp or none");
  check_refused("--devices", {"", "x", "-1", "-1,0", "0,", ",", "0 1", "cuda:0", "2147483648"},
                "device numbers from 0, separated by commas, each once, such as 2,0,1");
  check_refused("--module-device", {"", "2", "cuda", "cuda:", "cuda:-1", "cuda:x", "gpu:0", "CPU"}, "cuda:N or cpu");
  check_refused("--output-device", {"", "-1", "cpu", "0,1"}, "a device number from 0");
  check_refused("--seed", {"", "-1", "x", "18446744073709551616"}, "a whole number 0 to 18446744073709551615");
  check_refused("--json", {""}, "a file name, or - for standard output");
}

TEST_CASE("train refuses more than 64 hidden layers") {
  std::string widths = "8";
  for (int i = 1; i < 64; ++i) widths += ",8";
  CHECK(train({"--hidden", widths.c_str()}).hidden.size() == 64);
  widths += ",8";
  check_refused("--hidden", {widths.c_str()}, "1 to 64 widths, each 1 to 65536, separated by commas, such as 512,512");
}

TEST_CASE("train names the device that is given twice") {
  const std::string expected =
      " is named twice; expected device numbers from 0, separated by commas, each once, such as 2,0,1";
  CHECK(train_error({"--devices", "0,0"}) == "--devices '0,0': device 0" + expected);
  CHECK(train_error({"--devices", "2,1,02"}) == "--devices '2,1,02': device 2" + expected);
}

TEST_CASE("train says that an option lacks its value") {
  CHECK(train_error({"--epochs"}) == "--epochs has no value; expected a whole number 1 to 1000000");
  CHECK(train_error({"--epochs="}) == "--epochs= has no value after the equals sign");
  CHECK(train_error({"--epochs=", "3"}) == "--epochs= has no value after the equals sign");
  CHECK(train_error({"--epochs", "--seed", "3"}) ==
        "--epochs has no value before --seed; expected a whole number 1 to 1000000");
  CHECK(train_error({"--json", "--help"}) ==
        "--json has no value before --help; expected a file name, or - for standard output");
}

TEST_CASE("train refuses an option that is given twice") {
  CHECK(train_error({"--epochs", "3", "--seed", "1", "--epochs=3"}) == "--epochs is given 2 times; give it once");
  CHECK(train_error({"--seed", "1", "--seed", "2", "--seed", "3"}) == "--seed is given 3 times; give it once");
}

TEST_CASE("train lists its options when one is unknown") {
  for (const char* argument : {"--foo", "--save", "--load", "--map-location", "--epoch", "--Epochs", "-e", "-1"}) {
    CHECK(train_error({argument, "3"}) ==
          "unknown option '" + std::string(argument) + "'; fanout train takes " + kTakes);
  }
  CHECK(train_error({"--foo=3"}) == "unknown option '--foo'; fanout train takes " + kTakes);
  CHECK(train_error({"3"}) == "unexpected argument '3'; fanout train takes options only: " + kTakes);
  CHECK(train_error({"devices"}) == "unexpected argument 'devices'; fanout train takes options only: " + kTakes);
}

TEST_CASE("bench step has defaults, and takes every option") {
  const BenchOptions plain = bench({"step"});
  CHECK(plain.subject == Subject::step);
  CHECK(plain.net == std::vector<std::int64_t>{784, 512, 512, 10});
  CHECK(plain.batch_size == 256);
  CHECK(plain.optimizer == OptimizerKind::sgd);
  CHECK_FALSE(plain.devices);
  CHECK_FALSE(plain.stages);
  CHECK_FALSE(plain.windows);
  CHECK_FALSE(plain.window_seconds);
  CHECK((plain.json.empty() && plain.csv.empty() && plain.plot.empty()));

  const BenchOptions all =
      bench({"step", "--net", "64,32-10", "--batch-size=32", "--optimizer", "adam", "--devices", "1,0", "--stages",
             "--windows", "7", "--window", "0.5", "--json", "-", "--csv", "a b.csv", "--plot", "x.svg"});
  CHECK(all.net == std::vector<std::int64_t>{64, 32, 10});
  CHECK(all.batch_size == 32);
  CHECK(all.optimizer == OptimizerKind::adam);
  CHECK(all.devices == std::vector<int>{1, 0});
  CHECK(all.stages);
  CHECK(all.windows == 7);
  CHECK(all.window_seconds == 0.5);
  CHECK(all.json == "-");
  CHECK(all.csv == "a b.csv");
  CHECK(all.plot == "x.svg");
}

TEST_CASE("bench reads sizes as powers of 1024, each the double of the one before") {
  const BenchOptions scatter = bench({"scatter", "--sizes", "512:4K", "--dim", "1", "--input", "pageable"});
  CHECK(scatter.subject == Subject::scatter);
  CHECK(scatter.sizes == std::vector<std::size_t>{512, 1024, 2048, 4096});
  CHECK(scatter.dim == 1);
  CHECK(scatter.input == InputMemory::pageable);
  CHECK(bench({"reduce", "--sizes", "3M"}).sizes == std::vector<std::size_t>{3 << 20});
  CHECK(bench({"p2p", "--sizes", "1M:3M"}).sizes == std::vector<std::size_t>{1 << 20, 2 << 20});
  CHECK(bench({"gather"}).sizes.front() == 1024);
  CHECK(bench({"gather"}).sizes.back() == std::size_t{64} << 20);
}

TEST_CASE("bench says what is wrong with a value and what is allowed") {
  const auto refused = [](const char* subject, const char* option, const Arguments& values,
                          const std::string& expected) {
    for (const char* value : values) {
      CHECK(error_of({"bench", subject, option, value}) ==
            std::string(option) + " '" + value + "': expected " + expected);
    }
  };
  refused("scatter", "--sizes", {"", "x", "0", "-1", "1K:", ":1K", "2K:1K", "1T", "1.5K", "1K:2K:4K", "6", "65G", "K"},
          "one size or two, the smaller first, such as 1K:256M, multiples of 4 bytes up to 64G");
  refused("scatter", "--dim", {"", "2", "-1", "x"}, "0 or 1");
  refused("scatter", "--input", {"", "cpu"}, "pinned, pageable or device");
  refused("step", "--net", {"", "784", "784-", "0-10", "784-x-10"},
          "2 to 64 widths, each 1 to 65536, separated by hyphens, such as 784-512-512-10");
  refused("step", "--windows", {"0", "x"}, "a whole number 1 to 1000000");
  refused("step", "--window", {"0", "61", "x", "nan"}, "seconds from 0.001 to 60");
  refused("step", "--plot", {"", ".svg", "x.pdf"}, "a file name that ends in .svg or .png");
}

TEST_CASE("bench names its subjects and the options of each") {
  CHECK(error_of({"bench"}) ==
        "bench has no subject; it takes scatter, gather, broadcast, reduce, allreduce, replicate, p2p, kernels or "
        "step");
  CHECK(error_of({"bench", "foo"}) ==
        "unexpected argument 'foo'; fanout bench takes scatter, gather, broadcast, reduce, allreduce, replicate, p2p, "
        "kernels or step first");
  CHECK(error_of({"bench", "step", "--sizes", "1K"}) ==
        "unknown option '--sizes'; fanout bench step takes --devices, --net, --batch-size, --optimizer, --stages, "
        "--windows, --window, --json, --csv, --plot, --help");
  CHECK(error_of({"bench", "reduce", "--dim", "1"}) ==
        "unknown option '--dim'; fanout bench reduce takes --devices, --sizes, --windows, --window, --json, --csv, "
        "--plot, --help");
  CHECK(error_of({"bench", "step", "--windows"}) == "--windows has no value; expected a whole number 1 to 1000000");
  CHECK(error_of({"bench", "step", "--net", "--json"}) ==
        "--net has no value before --json; expected 2 to 64 widths, each 1 to 65536, separated by hyphens, such as "
        "784-512-512-10");
}

TEST_CASE("devices takes no options but --help") {
  CHECK(std::holds_alternative<DevicesOptions>(parse({"devices"})));
  CHECK(error_of({"devices", "--epochs", "3"}) == "unknown option '--epochs'; fanout devices takes --help");
  CHECK(error_of({"devices", "0"}) == "unexpected argument '0'; fanout devices takes options only: --help");
}

TEST_CASE("fanout lists its commands when none is given or it is unknown") {
  const std::string allowed = "; fanout takes train, bench or devices first (fanout --help tells more)";
  CHECK(error_of({}) == "no command" + allowed);
  CHECK(error_of({""}) == "unknown command ''" + allowed);
  CHECK(error_of({"help"}) == "unknown command 'help'" + allowed);
  CHECK(error_of({"--epochs", "3", "train"}) == "unknown option '--epochs'" + allowed);
  CHECK_THROWS_AS(parse_command_line(0, nullptr), UsageError);
}

TEST_CASE("help names every option and default in lines of at most 80 characters") {
  CHECK(std::get<HelpText>(parse({"--help"})).text ==
        "Trains neural networks on several devices of one machine, and shows how.\n"
        "Usage: fanout [OPTION...] [COMMAND]\n"
        "\n"
        "Options:\n"
        "  -h,--help               show this help\n"
        "  --version               show the version\n"
        "\n"
        "Commands:\n"
        "  train                   Train a multi-layer perceptron (MLP) on images\n"
        "  bench                   Measure copies, kernels and training steps\n"
        "  devices                 List the devices of this machine\n"
        "\n"
        "fanout COMMAND --help shows a command's options.\n");
  CHECK(std::get<HelpText>(parse({"devices", "--help"})).text ==
        "List the devices of this machine\n"
        "Usage: fanout devices [OPTION...]\n"
        "\n"
        "Options:\n"
        "  -h,--help               show this help\n"
        "\n");

  const std::string text = std::get<HelpText>(parse({"train", "-h"})).text;
  std::istringstream names(kTakes);
  for (std::string name; names >> name;) {
    if (name.back() == ',') name.pop_back();
    CHECK(text.find(name + " ") != std::string::npos);
  }
  for (const char* value : {"(digits)", "(512,512)", "(10)", "(64)", "(sgd)", "(sgd 0.05, adam and adamw 0.001)",
                            "(0.9)", "(dp)", "(all, from 0)", "(the primary)", "(0)", "(none)"}) {
    CHECK(text.find(value) != std::string::npos);
  }
  const auto check_lines = [](const std::string& help) {
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
  };
  check_lines(text);
  check_lines(std::get<HelpText>(parse({"bench", "--help"})).text);
  for (const char* subject :
       {"scatter", "gather", "broadcast", "reduce", "allreduce", "replicate", "p2p", "kernels", "step"}) {
    const std::string help = std::get<HelpText>(parse({"bench", subject, "--help"})).text;
    CHECK(help.find("--json") != std::string::npos);
    check_lines(help);
  }
}

TEST_CASE("version is the program's name and number") {
  CHECK(std::get<VersionText>(parse({"--version"})).text == "fanout " FANOUT_VERSION "\n");
}

}  // namespace fanout::tools
