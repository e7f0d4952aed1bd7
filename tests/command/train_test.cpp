// SPDX-License-Identifier: Apache-2.0
// `fanout train` as a person calls it.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/command/command.h"

using namespace fanout::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

using Json = nlohmann::json;
using Arguments = std::vector<std::string>;

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
  return lines;
}

// Trains and returns the loss of every step.
std::vector<double> losses(Arguments more) {
  Arguments arguments{"train", "--json", "-"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Outcome outcome = run_fanout(arguments);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  std::vector<double> all;
  for (const Json& line : lines_of(outcome.out)) {
    if (line.contains("step")) all.push_back(line["loss"]);
  }
  return all;
}

const Arguments kShort{"--hidden", "32", "--epochs", "1"};

Arguments short_run(Arguments more) {
  Arguments arguments{"train"};
  arguments.insert(arguments.end(), kShort.begin(), kShort.end());
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace

TEST_CASE("train learns the digits to at least 0.96 on the test images with its defaults") {
  const Outcome outcome = run_fanout({"train", "--json", "-"});
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  const Json last = lines_of(outcome.out).back();
  CHECK(last["epoch"] == 10);
  CHECK(last["test_accuracy"] >= 0.96);
  CHECK(last["samples_per_second"] > 0);
  CHECK_THAT(outcome.err, Contains("digits: 1437 training and 360 test images of 64 values, 10 classes"));
  CHECK_THAT(outcome.err, Contains("cuda:0 is the primary"));
}

TEST_CASE("losses of every step agree to 1e-5 however the batch is spread, and to the last bit on a second run") {
  const std::vector<double> alone = losses({"--parallel", "none"});
  REQUIRE(alone.size() == 230);
  for (const char* devices : {"0", "0,1", "0,1,2,3", "3,1"}) {
    const std::vector<double> spread = losses({"--devices", devices});
    REQUIRE(spread.size() == alone.size());
    double largest = 0;
    for (std::size_t step = 0; step < alone.size(); ++step) {
      largest = std::max(largest, std::abs(spread[step] - alone[step]) / alone[step]);
    }
    INFO("devices " << devices);
    CHECK(largest <= 1e-5);
  }
  CHECK(losses({"--devices", "0,1,2,3"}) == losses({"--devices", "0,1,2,3"}));
}

TEST_CASE("another seed gives other losses") {
  CHECK(losses({"--hidden", "32", "--epochs", "1"}) != losses({"--hidden", "32", "--epochs", "1", "--seed", "1"}));
}

TEST_CASE("every optimizer trains") {
  for (const char* optimizer : {"sgd", "adam", "adamw"}) {
    const std::vector<double> all =
        losses({"--hidden", "64", "--epochs", "3", "--optimizer", optimizer, "--devices", "0,1"});
    CHECK(all.back() < 0.75 * all.front());
  }
}

TEST_CASE("JSON lines have a step, epoch and loss for each step, and five figures for each epoch") {
  const TemporaryFolder folder;
  const std::string file = folder.file("log.jsonl");
  const Outcome outcome = run_fanout(short_run({"--json", file, "--epochs", "2"}));
  CHECK(outcome.status == 2);  // --epochs is given twice
  CHECK_FALSE(std::filesystem::exists(file));
  REQUIRE(run_fanout({"train", "--hidden", "32", "--epochs", "2", "--json", file}).status == 0);
  const std::vector<Json> lines = lines_of(read_text(file));
  REQUIRE(lines.size() == 2 * (23 + 1));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool epoch_line = i % 24 == 23;
    CHECK(lines[i].size() == (epoch_line ? 5 : 3));
    CHECK(lines[i]["epoch"] == i / 24 + 1);
    if (!epoch_line) CHECK(lines[i]["step"] == i - i / 24);
  }
  for (const char* key : {"train_loss", "train_accuracy", "test_accuracy", "samples_per_second"})
    CHECK(lines.back().contains(key));
}

TEST_CASE(
    "the module's device and the list of devices decide: right ones train, wrong ones are refused before any step") {
  CHECK(run_fanout(short_run({"--module-device", "cuda:0", "--devices", "0,1,2"})).status == 0);
  const Outcome second = run_fanout(short_run({"--module-device", "cuda:2", "--devices", "2,0,1"}));
  CHECK(second.status == 0);
  CHECK_THAT(second.out, Contains("devices: cuda:2, cuda:0, cuda:1; cuda:2 is the primary"));

  for (const char* device : {"cuda:2", "cpu"}) {
    const TemporaryFolder folder;
    const std::string file = folder.file("log.jsonl");
    const Outcome wrong = run_fanout(short_run({"--module-device", device, "--devices", "0,1,2", "--json", file}));
    CHECK(wrong.status == 1);
    CHECK_THAT(wrong.err,
               StartsWith("fanout: module must have its parameters and buffers on device cuda:0 (device_ids[0]) but "
                          "found one of them on device: " +
                          std::string(device)));
    CHECK_THAT(wrong.err, Contains("\n  layers.0.weight [32, 64] on " + std::string(device)));
    CHECK_THAT(wrong.err, Contains("\n  layers.1.bias [10] on " + std::string(device)));
    CHECK_THAT(wrong.err, Contains("to(module, Device(0))"));
    CHECK_THAT(wrong.err, Contains("map_location \"cuda:0\""));
    CHECK_FALSE(std::filesystem::exists(file));
  }
  CHECK_THAT(run_fanout(short_run({"--module-device", "cuda:2", "--devices", "0,1,2"})).err,
             Contains("device_ids {2, 0, 1}"));
}

TEST_CASE("outputs can be gathered on another device than the primary") {
  CHECK(losses({"--hidden", "32", "--epochs", "1", "--devices", "1,2", "--output-device", "3"}) ==
        losses({"--hidden", "32", "--epochs", "1", "--devices", "1,2"}));
}

TEST_CASE("wrong calls exit with 2 and say what is wrong and what is allowed") {
  const auto refused = [](Arguments more, const std::string& text) {
    Arguments arguments{"train"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run_fanout(arguments);
    INFO(more.back() << ": " << outcome.err);
    CHECK(outcome.status == 2);
    CHECK(outcome.out.empty());
    CHECK_THAT(outcome.err, StartsWith("fanout: "));
    CHECK_THAT(outcome.err, Contains(text));
  };
  refused({"--devices", "0,0"}, "device 0 is named twice");
  refused({"--devices", "0,9"}, "device id 9 does not exist: this process sees 4 devices, ids 0 to 3");
  refused({"--devices", ""}, "device numbers from 0");
  refused({"--hidden", "x"}, "widths");
  refused({"--data", "nothing"}, "mnist:DIR");
  refused({"--module-device", "cuda:7"}, "--module-device: device id 7 does not exist");
  refused({"--output-device", "4"}, "device id 4 does not exist");
  refused({"--parallel", "none", "--devices", "0,1"}, "none");
  refused({"--learning-rat", "1"}, "--learning-rat");
}

TEST_CASE("data that cannot be read exits with 1, names the file and leaves nothing") {
  const TemporaryFolder folder;
  const std::string file = folder.file("log.jsonl");
  const Outcome missing = run_fanout({"train", "--data", "mnist:" + folder.path(), "--json", file});
  CHECK(missing.status == 1);
  CHECK_THAT(missing.err, Contains(folder.path()));
  std::ofstream(folder.file("train-images-idx3-ubyte")) << "no images";
  const Outcome damaged = run_fanout({"train", "--data", "mnist:" + folder.path(), "--json", file});
  CHECK(damaged.status == 1);
  CHECK_THAT(damaged.err, Contains("train-images-idx3-ubyte"));
  CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("a JSON file that cannot be written is refused before training") {
  const TemporaryFolder folder;
  for (const std::string& path : {folder.path(), folder.file("missing/log.jsonl")}) {
    const Outcome outcome = run_fanout(short_run({"--json", path}));
    CHECK(outcome.status == 1);
    CHECK(outcome.out.empty());
    CHECK_THAT(outcome.err, Contains("--json " + path + ": "));
  }
}

TEST_CASE("a loss that is no longer finite ends the run with step and epoch") {
  const Outcome outcome =
      run_fanout({"train", "--hidden", "32,32,32", "--learning-rate", "1000", "--momentum", "0.99"});
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.err, StartsWith("fanout: the loss became "));
  CHECK_THAT(outcome.err, Contains("at step"));
  CHECK_THAT(outcome.err, Contains("(epoch 1); a smaller learning rate usually cures it"));
}

TEST_CASE("without a device the command says so, and the way out") {
  for (const char* command : {"train", "devices"}) {
    const Outcome outcome = run_fanout({command}, {"CUDA_VISIBLE_DEVICES="});
    CHECK(outcome.status == 1);
    CHECK_THAT(outcome.err, StartsWith("fanout: no CUDA-capable device is detected (CUDA_VISIBLE_DEVICES=)"));
    CHECK_THAT(outcome.err, Contains("./fanout"));
  }
}

TEST_CASE("CUDA_VISIBLE_DEVICES renumbers the devices, and messages show it") {
  const Outcome outcome = run_fanout(short_run({"--devices", "0,2"}), {"CUDA_VISIBLE_DEVICES=3,1"});
  CHECK(outcome.status == 2);
  CHECK_THAT(outcome.err, Contains("this process sees 2 devices, ids 0 to 1 (CUDA_VISIBLE_DEVICES=3,1)"));
  CHECK(run_fanout(short_run({"--devices", "1,0"}), {"CUDA_VISIBLE_DEVICES=3,1"}).status == 0);
}

TEST_CASE("devices lists every device with its name, memory and UUID") {
  const Outcome outcome = run_fanout({"devices"});
  CHECK(outcome.status == 0);
  for (const char* name : {"cuda:0", "cuda:3", "GPU-"}) CHECK_THAT(outcome.out, Contains(name));
}

TEST_CASE("help and version exit with 0") {
  for (const Arguments& arguments : {Arguments{"--help"}, Arguments{"train", "--help"}, Arguments{"--version"}}) {
    const Outcome outcome = run_fanout(arguments);
    CHECK(outcome.status == 0);
    CHECK_FALSE(outcome.out.empty());
    CHECK(outcome.err.empty());
  }
}
