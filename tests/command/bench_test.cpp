// SPDX-License-Identifier: Apache-2.0
// `fanout bench` as a person calls it: what it checks, prints and writes. Times are not judged.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/command/command.h"

using namespace fanout::test;
using Catch::Matchers::Contains;

namespace {

using Json = nlohmann::json;
using Arguments = std::vector<std::string>;

const Arguments kShort{"--windows", "3", "--window", "0.001"};

Outcome bench(Arguments arguments, const std::vector<std::string>& environment = {}) {
  arguments.insert(arguments.begin(), "bench");
  arguments.insert(arguments.end(), kShort.begin(), kShort.end());
  return run_fanout(arguments, environment);
}

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(Json::parse(line));
  return lines;
}

// The JSON lines of a run that must pass; the table goes to stderr then.
std::vector<Json> rows(Arguments arguments, const std::vector<std::string>& environment = {}) {
  arguments.insert(arguments.end(), {"--json", "-"});
  const Outcome outcome = bench(arguments, environment);
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  return lines_of(outcome.out);
}

}  // namespace

TEST_CASE("bench runs each collective over sizes and devices, in nccl-tests' keys, and finds nothing wrong") {
  for (const char* subject : {"scatter", "gather", "broadcast", "reduce", "allreduce"}) {
    for (const char* devices : {"0,1", "2,0,3,1"}) {
      const std::vector<Json> found = rows({subject, "--sizes", "4:8", "--devices", devices});
      REQUIRE(found.size() == 2);
      const std::vector<Json> large = rows({subject, "--sizes", "3M", "--devices", devices});
      const bool sums = std::string(subject).ends_with("reduce");
      for (const Json& row : {found[0], found[1], large[0]}) {
        CHECK(row["bench"] == subject);
        CHECK(row["count"] == row["size"].get<int>() / 4);
        CHECK(row["type"] == "float");
        CHECK(row["redop"] == (sums ? "sum" : "none"));
        CHECK(row["out_of_place"]["nwrong"] == 0);
        CHECK(row["out_of_place"]["time"] > 0);
        CHECK(row["out_of_place"]["alg_bw"] > 0);
        CHECK(row["percent_of_memcpy"] > 0);
        CHECK(row["percent_of_limit"] > 0);
        CHECK(row["n"] == 3);
      }
    }
  }
}

TEST_CASE("bus bandwidth has nccl-tests' factors for four devices") {
  const std::vector<std::pair<const char*, double>> factors{
      {"scatter", 0.75}, {"gather", 0.75}, {"broadcast", 1}, {"reduce", 1}, {"allreduce", 1.5}};
  for (const auto& [subject, factor] : factors) {
    const Json row = rows({subject, "--sizes", "1K"})[0]["out_of_place"];
    CHECK(row["bus_bw"].get<double>() == Approx(factor * row["alg_bw"].get<double>()));
  }
}

TEST_CASE("scatter and gather split either dimension, scatter from any memory") {
  for (const char* dim : {"0", "1"}) {
    for (const char* input : {"pinned", "pageable", "device"}) {
      CHECK(rows({"scatter", "--sizes", "1M", "--dim", dim, "--input", input})[0]["out_of_place"]["nwrong"] == 0);
    }
    CHECK(rows({"gather", "--sizes", "1M", "--dim", dim})[0]["out_of_place"]["nwrong"] == 0);
  }
}

TEST_CASE("replicate sends a changed module once to every replica and nothing of an unchanged one") {
  const std::vector<Json> found = rows({"replicate", "--sizes", "1M", "--devices", "0,1,2"});
  REQUIRE(found.size() == 4);
  CHECK(found[0]["state"] == "changed");
  CHECK(found[0]["sent_bytes"] == 2 << 20);
  CHECK(found[1]["state"] == "unchanged");
  CHECK(found[1]["sent_bytes"] == 0);
  CHECK(found[2]["tensors"] == 2000);
  CHECK(found[2]["sent_bytes"] == 2 * 2000 * 1024);
  CHECK(found[3]["sent_bytes"] == 0);
  for (const Json& row : found) CHECK(row["out_of_place"]["nwrong"] == 0);
}

TEST_CASE("p2p has a line for each pair, with and without peer access, and sees a link that corrupts") {
  const std::vector<Json> found = rows({"p2p", "--sizes", "64K", "--devices", "0,1,2"});
  CHECK(found.size() == 12);
  for (const Json& row : found) {
    CHECK(row["out_of_place"]["nwrong"] == 0);
    CHECK(row["latency_us"] > 0);
  }
  CHECK(rows({"p2p", "--sizes", "64K", "--devices", "0,1"}, {"FANOUT_SIM_NO_PEER=all"}).size() == 2);
  const std::vector<Json> corrupted =
      rows({"p2p", "--sizes", "64K", "--devices", "0,1"}, {"FANOUT_SIM_FAULTS=corrupt@0-1:1"});
  CHECK(corrupted[0]["out_of_place"]["nwrong"] > 0);
}

TEST_CASE("kernels has a line for each kernel, the copy first, and their results are right") {
  const std::vector<Json> found = rows({"kernels", "--sizes", "64K"});
  CHECK(found.size() == 12);
  CHECK(found[0]["kernel"] == "copy");
  CHECK(found[0]["percent_of_copy"] == 100);
  for (const Json& row : found) {
    INFO(row.dump());
    CHECK(row["out_of_place"]["nwrong"] == 0);
  }
}

TEST_CASE("step prints one JSON line with samples a second, and agrees with one device") {
  for (const char* optimizer : {"sgd", "adam", "adamw"}) {
    const std::vector<Json> found =
        rows({"step", "--net", "64,32,10", "--batch-size", "32", "--devices", "1,0", "--optimizer", optimizer});
    REQUIRE(found.size() == 1);
    CHECK(found[0]["best"] >= found[0]["median"]);
    CHECK(found[0]["median"] >= found[0]["min"]);
    CHECK(found[0]["min"] > 0);
    CHECK(found[0]["unit"] == "samples/s");
    CHECK(found[0]["net"] == "64-32-10");
    CHECK(found[0]["nwrong"] == 0);
  }
}

TEST_CASE("step shows the stages of each device, which add up to the step, and a verdict") {
  const std::vector<Json> found =
      rows({"step", "--net", "64-64-10", "--batch-size", "64", "--devices", "0,1", "--stages"});
  REQUIRE(found.size() == 1 + 2 * 9 + 1);
  double primary = 0, other = 0;
  for (std::size_t i = 1; i < 19; ++i) {
    CHECK(found[i]["us"] >= 0);
    (found[i]["device"] == "cuda:0" ? primary : other) += found[i]["us"].get<double>();
    if (found[i]["stage"] == "forward" || found[i]["stage"] == "backward") CHECK(found[i]["us"] > 0);
    if (found[i]["stage"] == "update") CHECK((found[i]["us"] > 0) == (found[i]["device"] == "cuda:0"));
  }
  CHECK(primary == Approx(other).epsilon(0.1));
  CHECK_THAT(found[19]["verdict"].get<std::string>(), Contains("-bound: ") || Contains("imbalanced: "));
  CHECK_THAT(found[19]["verdict"].get<std::string>(), Contains("2 devices take "));
}

TEST_CASE("train --profile shows stages and a verdict behind the epochs, and wants enough steps") {
  for (const Arguments& mode : {Arguments{"--devices", "0,1"}, Arguments{"--parallel", "none"}}) {
    Arguments arguments{"train", "--hidden", "32", "--epochs", "2", "--profile", "--json", "-"};
    arguments.insert(arguments.end(), mode.begin(), mode.end());
    const Outcome outcome = run_fanout(arguments);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    const std::vector<Json> lines = lines_of(outcome.out);
    CHECK(lines.back()["verdict"].get<std::string>().ends_with("."));
    const Json profile = lines[lines.size() - 2]["profile"];
    CHECK(profile["forward_us"] > 0);
    CHECK(profile["total_us"] >= profile["forward_us"]);
    CHECK_THAT(outcome.err, Contains("us a step"));
  }
  const Outcome few = run_fanout({"train", "--epochs", "1", "--batch-size", "700", "--profile"});
  CHECK(few.status == 2);
  CHECK_THAT(few.err, Contains("--profile needs 4 steps an epoch; there are 3: take a smaller batch"));
}

TEST_CASE("bench writes comma-separated lines and has gnuplot draw what it measured") {
  const TemporaryFolder folder;
  // A gnuplot that keeps what it is told, and draws nothing.
  const std::string program = folder.file("gnuplot");
  std::ofstream(program) << "#!/bin/sh\ncat > '" << folder.file("script") << "'\n: > '" << folder.file("x.svg.part")
                         << "'\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const Outcome outcome =
      bench({"scatter", "--sizes", "1K:4K", "--csv", folder.file("x.csv"), "--plot", folder.file("x.svg")},
            {"PATH=" + folder.path() + ":/usr/bin:/bin"});
  INFO(outcome.err);
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.out, Contains("limit: ") && Contains("busbw"));
  CHECK(std::filesystem::exists(folder.file("x.svg")));
  CHECK_THAT(read_text(folder.file("script")), Contains("set ylabel 'bus bandwidth (GB/s)'") && Contains("\"4096\" "));
  std::istringstream csv(read_text(folder.file("x.csv")));
  std::string line;
  std::getline(csv, line);
  CHECK(line == "size,count,type,time us,min us,p95 us,spread %,algbw,busbw,of limit %,memcpy,of it %,#wrong");
  int count = 0;
  while (std::getline(csv, line)) ++count;
  CHECK(count == 3);
  CHECK_FALSE(std::filesystem::exists(folder.file("x.csv.part")));
}

TEST_CASE("bench says what it cannot do before it measures") {
  const auto refused = [](const Arguments& arguments, int status, const std::string& text) {
    const Outcome outcome = bench(arguments);
    CHECK(outcome.status == status);
    CHECK(outcome.out.empty());
    CHECK_THAT(outcome.err, Contains(text));
  };
  refused({"scatter", "--devices", "0"}, 2, "bench scatter needs at least two devices; it has cuda:0");
  refused({"replicate", "--devices", "1"}, 2, "bench replicate needs at least two devices; it has cuda:1");
  refused({"p2p", "--devices", "1"}, 2, "bench p2p needs at least two devices; it has cuda:1");
  refused({"step", "--devices", "0,9"}, 2, "9");
  refused({"kernels", "--sizes", "512"}, 2, "bench kernels: 512 bytes are too few; use 1K or more");
  refused({"step", "--csv", "/nowhere/x.csv"}, 1, "--csv /nowhere/x.csv: No such file or directory");
  refused({"step", "--json", "/nowhere/x"}, 1, "--json /nowhere/x: No such file or directory");
}
