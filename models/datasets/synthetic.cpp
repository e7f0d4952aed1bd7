// SPDX-License-Identifier: Apache-2.0
#include "models/datasets/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>

#include "models/datasets/random_source.h"

namespace fanout::models {
namespace {

constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kMinRows = 10;
constexpr std::int64_t kMaxRows = 10'000'000;
constexpr std::int64_t kMaxFeatures = 65'536;
constexpr std::int64_t kMaxValues = 500'000'000;  // 2 GB

// Pixels are drawn as whole numbers 0..2^24, which a float holds exactly: no rounding differs between machines.
constexpr std::int64_t kOne = 1 << 24;

struct Size {
  std::int64_t rows;
  std::int64_t features;
};

// The number that `text` is, or 0 where it is none from `min`, above 0, to `max`.
std::int64_t whole_number(std::string_view text, std::int64_t min, std::int64_t max) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < min || value > max) return 0;
  return value;
}

Size parse_size(const std::string& text) {
  const std::string_view view = text;
  const std::size_t x = view.find('x');
  const std::int64_t rows = whole_number(view.substr(0, x), kMinRows, kMaxRows);
  const std::int64_t features = x == view.npos ? 0 : whole_number(view.substr(x + 1), 1, kMaxFeatures);
  if (rows == 0 || features == 0 || rows * features > kMaxValues) {
    throw DatasetNameError(
        fmt::format("data set 'synthetic:{}' has no valid size; write synthetic:ROWSxFEATURES, such as "
                    "synthetic:10000x64, with ROWS "
                    "{} to {}, FEATURES 1 to {} and ROWS times FEATURES at most {}",
                    text, kMinRows, kMaxRows, kMaxFeatures, kMaxValues));
  }
  return {rows, features};
}

// Four even 16-bit numbers added (Irwin and Hall): bell-shaped, mean 0, standard deviation 0.144 * kOne.
std::int64_t noise(RandomSource& random) {
  const std::uint64_t bits = random.bits();
  std::int64_t sum = 0;
  for (int shift = 0; shift < 64; shift += 16) sum += static_cast<std::int64_t>(bits >> shift & 0xffff);
  return (sum - 2 * 0xffff) * 64;
}

std::vector<std::int64_t> draw_centres(RandomSource& random, std::int64_t features) {
  std::vector<std::int64_t> centres(static_cast<std::size_t>(kClasses * features));  // [classes, features]
  for (auto& centre : centres) centre = kOne / 4 + static_cast<std::int64_t>(random.bits() >> 41);
  return centres;
}

Split draw_rows(RandomSource& random, std::int64_t rows, const std::vector<std::int64_t>& centres) {
  const std::int64_t features = std::ssize(centres) / kClasses;
  Split split;
  split.images.reserve(static_cast<std::size_t>(rows * features));
  split.labels.reserve(static_cast<std::size_t>(rows));
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto label = static_cast<std::int64_t>(random.below(kClasses));
    const std::int64_t* centre = centres.data() + label * features;
    for (std::int64_t i = 0; i < features; ++i) {
      const std::int64_t pixel = std::clamp<std::int64_t>(centre[i] + noise(random), 0, kOne);
      split.images.push_back(static_cast<float>(pixel) / kOne);
    }
    split.labels.push_back(label);
  }
  return split;
}

}  // namespace

Dataset load_synthetic(const std::string& size, std::uint64_t seed) {
  const auto [rows, features] = parse_size(size);
  RandomSource random(seed, RandomSource::Use::synthetic, 0);
  const std::vector<std::int64_t> centres = draw_centres(random, features);
  const std::int64_t test_rows = rows / 5;
  Dataset dataset{.name = "synthetic:" + size, .features = features, .classes = kClasses, .train = {}, .test = {}};
  dataset.train = draw_rows(random, rows - test_rows, centres);
  dataset.test = draw_rows(random, test_rows, centres);
  return dataset;
}

}  // namespace fanout::models
