// SPDX-License-Identifier: Apache-2.0
#include "models/datasets/mnist.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "models/datasets/idx.h"

namespace fanout::models {
namespace {

constexpr std::uint32_t kSide = 28;
constexpr std::int64_t kClasses = 10;
constexpr std::size_t kLimitBytes = 256 << 20;  // 5.7 times the training images of MNIST

bool is_missing(const std::filesystem::path& path) {
  std::error_code error;  // a file that can't be looked at is not missing: reading it will say why
  return std::filesystem::status(path, error).type() == std::filesystem::file_type::not_found;
}

std::filesystem::path find_file(const std::filesystem::path& folder, const std::string& name) {
  const std::filesystem::path plain = folder / name;
  const std::filesystem::path packed = folder / (name + ".gz");
  if (!is_missing(plain)) return plain;
  if (!is_missing(packed)) return packed;
  throw DatasetError(fmt::format(
      "{}: holds neither {} nor {}.gz; mnist:DIR needs a folder with train-images-idx3-ubyte, train-labels-idx1-ubyte, "
      "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each as it is or with .gz",
      folder.string(), name, name));
}

void check_images(const IdxFile& images) {
  if (images.sizes[0] == 0) fail_at(images.file, images.size_offset(0), "expected at least 1 image, found 0");
  for (std::size_t i : {1, 2}) {
    if (images.sizes[i] == kSide) continue;
    fail_at(images.file, images.size_offset(i),
            fmt::format("expected images of {} x {}, found {} x {}", kSide, kSide, images.sizes[1], images.sizes[2]));
  }
}

void check_labels(const IdxFile& labels, const IdxFile& images) {
  if (labels.sizes[0] != images.sizes[0]) {
    fail_at(labels.file, labels.size_offset(0),
            fmt::format("expected {} labels, one for each image of {}, found {}", images.sizes[0], images.file.name,
                        labels.sizes[0]));
  }
  const auto data = labels.data();
  const auto bad = std::ranges::find_if(data, [](std::uint8_t label) { return label >= kClasses; });
  if (bad != data.end()) {
    fail_at(labels.file, labels.header_bytes() + static_cast<std::size_t>(bad - data.begin()),
            fmt::format("expected a label 0 to {}, found {}", kClasses - 1, *bad));
  }
}

Split load_split(const std::filesystem::path& folder, const std::string& prefix) {
  const IdxFile images = read_idx(find_file(folder, prefix + "-images-idx3-ubyte"), 3, kLimitBytes);
  check_images(images);
  const IdxFile labels = read_idx(find_file(folder, prefix + "-labels-idx1-ubyte"), 1, kLimitBytes);
  check_labels(labels, images);

  Split split;
  split.images.resize(images.data().size());
  std::ranges::transform(images.data(), split.images.begin(), [](std::uint8_t pixel) { return pixel / 255.0f; });
  split.labels.assign(labels.data().begin(), labels.data().end());
  return split;
}

}  // namespace

Dataset load_mnist(const std::filesystem::path& folder) {
  std::error_code error;
  const auto status = std::filesystem::status(folder, error);
  if (!error && !std::filesystem::is_directory(status)) error = std::make_error_code(std::errc::not_a_directory);
  if (error) throw DatasetError(fmt::format("{}: cannot be read as a folder: {}", folder.string(), error.message()));

  return {.name = "mnist:" + folder.string(),
          .features = kSide * kSide,
          .classes = kClasses,
          .train = load_split(folder, "train"),
          .test = load_split(folder, "t10k")};
}

}  // namespace fanout::models
