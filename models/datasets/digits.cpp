// SPDX-License-Identifier: Apache-2.0
#include "models/datasets/digits.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <string_view>

#include "models/datasets/digits_packed.h"
#include "models/datasets/file_bytes.h"
#include "models/datasets/shuffle.h"

namespace fanout::models {
namespace {

constexpr std::int64_t kRows = 1797;
constexpr std::int64_t kTrainRows = 1437;  // 80 %
constexpr std::int64_t kFeatures = 64;
constexpr int kMaxPixel = 16;
constexpr std::int64_t kClasses = 10;
constexpr std::uint64_t kSplitSeed = 1998;  // of its own, so that every user has the same test images
constexpr std::size_t kLimitBytes = 1 << 20;
constexpr const char* kName = "the digits in the program";

// Reads whole numbers, each ended by a given character, and says where it stopped.
class CsvReader {
 public:
  explicit CsvReader(std::string_view text) : text_(text) {}

  int number(int max, char end) {
    int value = -1;
    const char* first = text_.data() + position_;
    const auto [next, error] = std::from_chars(first, text_.data() + text_.size(), value);
    const bool ended = next != text_.data() + text_.size() && *next == end;
    if (error != std::errc() || !ended || value < 0 || value > max) {
      throw DatasetError(
          fmt::format("{}: at byte {} of the unpacked data: expected a number 0 to {}", kName, position_, max));
    }
    position_ = static_cast<std::size_t>(next - text_.data()) + 1;
    return value;
  }

  bool at_end() const { return position_ == text_.size(); }

 private:
  std::string_view text_;
  std::size_t position_ = 0;
};

Split read_rows(std::string_view csv) {
  Split rows;
  rows.images.reserve(kRows * kFeatures);
  rows.labels.reserve(kRows);
  CsvReader reader(csv);
  while (!reader.at_end()) {
    for (std::int64_t i = 0; i < kFeatures; ++i) {
      rows.images.push_back(static_cast<float>(reader.number(kMaxPixel, ',')) / kMaxPixel);
    }
    rows.labels.push_back(reader.number(kClasses - 1, '\n'));
  }
  if (std::ssize(rows.labels) != kRows) {
    throw DatasetError(fmt::format("{}: expected {} lines, found {}", kName, kRows, rows.labels.size()));
  }
  return rows;
}

void append_row(Split& to, const Split& from, std::int64_t row) {
  const auto first = from.images.begin() + row * kFeatures;
  to.images.insert(to.images.end(), first, first + kFeatures);
  to.labels.push_back(from.labels[static_cast<std::size_t>(row)]);
}

}  // namespace

Dataset load_digits() {
  const std::vector<std::uint8_t> csv = unpack_gzip(kDigitsPacked, kName, kLimitBytes);
  const Split rows = read_rows({reinterpret_cast<const char*>(csv.data()), csv.size()});
  const std::vector<std::int64_t> order = shuffled_indices(kRows, kSplitSeed, 0);

  Dataset digits{.name = "digits", .features = kFeatures, .classes = kClasses, .train = {}, .test = {}};
  for (std::int64_t i = 0; i < kRows; ++i) {
    append_row(i < kTrainRows ? digits.train : digits.test, rows, order[static_cast<std::size_t>(i)]);
  }
  return digits;
}

}  // namespace fanout::models
