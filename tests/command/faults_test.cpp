// SPDX-License-Identifier: Apache-2.0
// `fanout train` on a machine where something breaks: it goes on with the same losses where that is possible, and ends
// with one clear error and nothing left behind where it is not.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/command/command.h"

using namespace fanout::test;
using Catch::Matchers::Contains;
using Catch::Matchers::Matches;

namespace {

using Json = nlohmann::json;

struct Run {
  Outcome outcome;
  std::vector<std::string> json;  // whole lines; empty where no file was written
  bool whole_lines = true;
};

// Trains on two devices with these faults.
Run train_with(const std::string& faults, std::vector<std::string> environment = {}) {
  const TemporaryFolder folder;
  const std::string file = folder.file("run.jsonl");
  environment.insert(environment.end(), {"FANOUT_SIM_FAULTS=" + faults, "FANOUT_SIM_LEAKS=1"});
  Run run;
  run.outcome = run_fanout(
      {"train", "--hidden", "32,32", "--epochs", "1", "--devices", "0,1", "--seed", "3", "--json", file}, environment);
  const std::string text = read_text(file);
  run.whole_lines = text.empty() || text.back() == '\n';
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) run.json.push_back(line);
  INFO(run.outcome.err);
  CHECK_THAT(run.outcome.err, !Contains("leak") && !Contains("unread error"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == (run.json.empty() ? 0 : 1));
  return run;
}

// The lines of the steps, each with its loss in full.
std::vector<std::string> steps(const Run& run) {
  std::vector<std::string> lines;
  for (const std::string& line : run.json) {
    if (line.find("\"step\"") != std::string::npos) lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> lines_with(const std::string& text, const std::string& part) {
  std::vector<std::string> found;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.find(part) != std::string::npos) found.push_back(line);
  }
  return found;
}

const std::string kStep = R"(fanout: step \d+ \(epoch 1\), )";

// One error, which is all of the regular expression `expected`.
void check_failure(const std::string& faults, const std::string& expected,
                   const std::vector<std::string>& environment = {}) {
  CAPTURE(faults);
  const Run run = train_with(faults, environment);
  INFO(run.outcome.err);
  CHECK(run.outcome.status == 1);
  const std::vector<std::string> errors = lines_with(run.outcome.err, "fanout: ");
  REQUIRE(errors.size() == 1);
  CHECK_THAT(errors[0], Matches(expected));
  CHECK(run.whole_lines);
  if (run.json.empty()) return;
  CHECK("fanout: " + Json::parse(run.json.back())["error"].get<std::string>() == errors[0]);
}

// Same losses as without the fault, and these warnings, once each.
void check_recovery(const std::string& faults, const std::vector<std::string>& warnings) {
  CAPTURE(faults);
  const Run run = train_with(faults), undisturbed = train_with("");
  INFO(run.outcome.err);
  CHECK(run.outcome.status == 0);
  CHECK(steps(run).size() == 23);
  CHECK(steps(run) == steps(undisturbed));
  CHECK(lines_with(run.outcome.err, "warning").size() == warnings.size());
  for (const std::string& text : warnings) CHECK(lines_with(run.outcome.err, text).size() == 1);
}

}  // namespace

TEST_CASE("an allocation, a launch or a copy that fails ends the training with step, stage and device") {
  check_failure("alloc@1:40", kStep + "(forward|backward): .*[0-9]+ bytes on cuda:1: out of memory.*");
  check_failure("launch@1:60", kStep + "(forward|backward): .*cudaErrorLaunchOutOfResources.*cuda:1.*");
  check_failure("copy@1:30", kStep + "(forward|backward): .*cudaErrorUnknown.*cuda:1.*");
  check_failure("launch@0:100", kStep + "(forward|backward|optimizer): .*cuda:0.*");
}

TEST_CASE("a device that breaks ends the training with one error, however many calls repeat it") {
  for (const char* number : {"60", "63", "66", "69", "72", "75", "78", "81"}) {
    check_failure(std::string("sticky@1:") + number,
                  kStep + "[a-z ]+: (.*cudaErrorLaunchFailure.*cuda:1.*|.*cuda:1.*cudaErrorLaunchFailure.*)");
  }
  check_failure("sticky@0:200", kStep + "[a-z ]+: .*cudaErrorLaunchFailure.*");
}

TEST_CASE("a communicator that cannot be set up on a device ends the training and names the device") {
  check_failure("init@1", kStep + "forward: .*ncclCommInitRankConfig.*cuda:1.*");
}

TEST_CASE("a rank that dies or never comes to a collective ends the training and names stage and device") {
  check_failure("die@1:5", kStep + "(forward|backward|optimizer): .*cuda:1.*");
  check_failure("stall@1:5", kStep + "(forward|backward|optimizer): .*cuda:1.*", {"FANOUT_SIM_NCCL_TIMEOUT=1"});
}

TEST_CASE("a device without memory for the module ends the training and says what it was for") {
  check_failure("alloc@0:2", "fanout: moving the module to cuda:0: [0-9]+ bytes on cuda:0: out of memory .*");
}

TEST_CASE("pinned memory that cannot be had ends the training before its first step") {
  check_failure("alloc@host:2", "fanout: before the first step: 512 bytes of pinned host memory: out of memory .*");
}

TEST_CASE("a device with too little memory ends the training and says how much was asked for") {
  check_failure("", "fanout: checking the link from cuda:0 to cuda:1: 65536 bytes on cuda:1: out of memory .*",
                {"FANOUT_SIM_DEVICES=2", "FANOUT_SIM_MEMORY=64M,256K"});
}

TEST_CASE("a link that is down is replaced by the way through the host, with the same losses") {
  check_recovery("down@0-1:1", {"the link between cuda:0 and cuda:1 is not used any more"});
  check_recovery("down@0-1:7", {"NCCL is not used any more among cuda:0, cuda:1",
                                "the link between cuda:0 and cuda:1 is not used any more"});
}

TEST_CASE("a slow link gives the same losses") {
  check_recovery("slow@0-1:1", {});
}

TEST_CASE("a link that corrupts what it carries is found before the training and not used") {
  check_recovery("corrupt@0-1:1", {"1 of 65536 bytes sent from cuda:0 to cuda:1 arrived wrong"});
}
