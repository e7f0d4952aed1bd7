// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "models/datasets/dataset.h"
#include "tests/models/datasets/temporary_folder.h"

namespace fanout::models {
namespace {

// [classes, features] means of a split's images.
std::vector<double> class_means(const Split& split, std::size_t features) {
  std::vector<double> sums(10 * features);
  std::vector<double> counts(10);
  for (std::size_t row = 0; row < split.labels.size(); ++row) {
    const auto label = static_cast<std::size_t>(split.labels[row]);
    ++counts[label];
    for (std::size_t i = 0; i < features; ++i) sums[label * features + i] += split.images[row * features + i];
  }
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] /= counts[i / features];
  return sums;
}

// The share of a split's images that are nearest to the mean of their class.
double nearest_mean_accuracy(const Split& split, const std::vector<double>& means, std::size_t features) {
  int correct = 0;
  for (std::size_t row = 0; row < split.labels.size(); ++row) {
    std::vector<double> distances(10);
    for (std::size_t i = 0; i < 10 * features; ++i) {
      distances[i / features] += std::pow(split.images[row * features + i % features] - means[i], 2);
    }
    correct += std::ranges::min_element(distances) - distances.begin() == split.labels[row];
  }
  return correct / static_cast<double>(split.labels.size());
}

}  // namespace

TEST_CASE("synthetic has the rows and features asked for, a fifth of the rows for testing") {
  const Dataset data = load_dataset("synthetic:104x7", 1);
  CHECK(data.name == "synthetic:104x7");
  CHECK(data.features == 7);
  CHECK(data.classes == 10);
  CHECK(data.train.labels.size() == 84);
  CHECK(data.train.images.size() == 84 * 7);
  CHECK(data.test.labels.size() == 20);
  CHECK(data.test.images.size() == 20 * 7);
  CHECK(load_dataset("synthetic:10x1", 1).test.labels.size() == 2);
}

TEST_CASE("synthetic has values 0..1 and about as many images of each class") {
  const Dataset data = load_dataset("synthetic:10000x5", 1);
  CHECK(std::ranges::all_of(data.train.images, [](float value) { return value >= 0 && value <= 1; }));
  for (std::int64_t label = 0; label < 10; ++label) {
    CHECK(std::abs(std::ranges::count(data.train.labels, label) - 800) < 150);
  }
}

TEST_CASE("synthetic can be told apart by a nearest mean, the better the more features it has") {
  const auto accuracy = [](const std::string& name, std::size_t features) {
    const Dataset data = load_dataset(name, 3);
    return nearest_mean_accuracy(data.test, class_means(data.train, features), features);
  };
  CHECK(accuracy("synthetic:5000x64", 64) > 0.95);
  CHECK(accuracy("synthetic:5000x2", 2) < 0.9);
  CHECK(accuracy("synthetic:5000x2", 2) > 0.3);
}

TEST_CASE("synthetic repeats for a seed, differs by seed, and is the same on every machine") {
  const Dataset one = load_dataset("synthetic:1000x8", 1);
  CHECK(load_dataset("synthetic:1000x8", 1).train.images == one.train.images);
  CHECK(load_dataset("synthetic:1000x8", 2).train.images != one.train.images);
  std::vector<std::int64_t> pixels;
  for (int i = 0; i < 4; ++i) pixels.push_back(static_cast<std::int64_t>(one.train.images[i] * (1 << 24)));
  CHECK(pixels == std::vector<std::int64_t>{4395093, 11283450, 6334971, 5476102});  // by an implementation in Python
  CHECK(std::vector(one.train.labels.begin(), one.train.labels.begin() + 8) ==
        std::vector<std::int64_t>{4, 4, 3, 2, 1, 1, 7, 8});
}

TEST_CASE("synthetic says which sizes are allowed") {
  for (const std::string size : {"",
                                 "x",
                                 "5",
                                 "100",
                                 "0x5",
                                 "9x5",
                                 "ax5",
                                 "100xa",
                                 "100x",
                                 "x5",
                                 "100x0",
                                 "-100x5",
                                 "100x-5",
                                 "100x5x5",
                                 " 100x5",
                                 "100x5 ",
                                 "+100x5",
                                 "1e3x5",
                                 "100X5",
                                 "10000001x5",
                                 "100x65537",
                                 "10000000x51",
                                 "99999999999999999999x5",
                                 "100x99999999999999999999"}) {
    CHECK_THROWS_AS(load_dataset("synthetic:" + size, 0), DatasetNameError);
    CHECK(
        error_of([&] { load_dataset("synthetic:" + size, 0); }) ==
        "data set 'synthetic:" + size +
            "' has no valid size; write synthetic:ROWSxFEATURES, such as synthetic:10000x64, with ROWS 10 to 10000000, "
            "FEATURES 1 to 65536 and ROWS times FEATURES at most 500000000");
  }
}

}  // namespace fanout::models
