// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <sstream>

#include "models/datasets/dataset.h"

namespace fanout::models {
namespace {

using Row = std::vector<float>;  // 64 pixels 0..16, then the label

void append_rows(std::vector<Row>& rows, const Split& split) {
  for (std::size_t i = 0; i < split.labels.size(); ++i) {
    Row row(split.images.begin() + static_cast<int>(i) * 64, split.images.begin() + static_cast<int>(i + 1) * 64);
    for (float& pixel : row) pixel *= 16;
    row.push_back(static_cast<float>(split.labels[i]));
    rows.push_back(row);
  }
}

// The stored file, by zlib's own file reader.
std::vector<Row> stored_rows() {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(DIGITS_FILE, "rb"), gzclose);
  REQUIRE(file);
  std::vector<Row> rows;
  char line[512];
  while (gzgets(file.get(), line, sizeof line)) {
    std::istringstream numbers(line);
    rows.emplace_back();
    for (std::string number; std::getline(numbers, number, ',');) rows.back().push_back(std::stof(number));
  }
  return rows;
}

}  // namespace

TEST_CASE("digits are 1,797 images of 64 pixels in 10 classes") {
  const Dataset digits = load_dataset("digits", 0);
  CHECK(digits.name == "digits");
  CHECK(digits.features == 64);
  CHECK(digits.classes == 10);
  CHECK(digits.train.labels.size() == 1437);
  CHECK(digits.train.images.size() == 1437 * 64);
  CHECK(digits.test.labels.size() == 360);
  CHECK(digits.test.images.size() == 360 * 64);

  std::vector<std::int64_t> counts(10);
  for (const auto label : digits.train.labels) ++counts.at(static_cast<std::size_t>(label));
  for (const auto label : digits.test.labels) ++counts.at(static_cast<std::size_t>(label));
  CHECK(counts == std::vector<std::int64_t>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180});
}

TEST_CASE("digits have pixels 0, 1/16, ... 1") {
  const Dataset digits = load_dataset("digits", 0);
  std::vector<std::int64_t> counts(17);
  for (const Split* split : {&digits.train, &digits.test}) {
    for (const float pixel : split->images) {
      const auto level = static_cast<std::size_t>(pixel * 16);
      REQUIRE(pixel == static_cast<float>(level) / 16);
      ++counts.at(level);
    }
  }
  CHECK(std::ranges::all_of(counts, [](std::int64_t count) { return count > 0; }));
}

TEST_CASE("digits for training and testing are disjoint and together the stored file") {
  std::vector<Row> expected = stored_rows();
  REQUIRE(expected.size() == 1797);
  std::ranges::sort(expected);
  REQUIRE(std::ranges::adjacent_find(expected) == expected.end());  // no image twice, so equal means disjoint

  const Dataset digits = load_dataset("digits", 0);
  std::vector<Row> rows;
  append_rows(rows, digits.train);
  append_rows(rows, digits.test);
  std::ranges::sort(rows);
  CHECK(rows == expected);
}

TEST_CASE("digits are split alike whatever the seed, and every class is on both sides") {
  const Dataset one = load_dataset("digits", 1);
  const Dataset two = load_dataset("digits", 2);
  CHECK(one.train.images == two.train.images);
  CHECK(one.test.labels == two.test.labels);
  for (std::int64_t label = 0; label < 10; ++label) {
    CHECK(std::ranges::count(one.test.labels, label) >= 20);
    CHECK(std::ranges::count(one.train.labels, label) >= 100);
  }
  CHECK(std::vector(one.test.labels.begin(), one.test.labels.begin() + 8) ==
        std::vector<std::int64_t>{5, 9, 8, 0, 0, 2, 7, 1});  // by an implementation in Python
}

}  // namespace fanout::models
