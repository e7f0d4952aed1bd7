// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "models/datasets/dataset.h"
#include "tests/models/datasets/temporary_folder.h"

namespace fanout::models {
namespace {

constexpr std::size_t kPixels = 28 * 28;
const std::string kNames[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                              "t10k-labels-idx1-ubyte"};

// Image i has pixels i, i + 1, ... modulo 256.
Bytes images_of(std::uint32_t rows) {
  Bytes pixels;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < kPixels; ++j) pixels.push_back(static_cast<std::uint8_t>(i + j));
  }
  return pixels;
}

struct Files {
  Bytes train_images = idx_bytes({3, 28, 28}, images_of(3));
  Bytes train_labels = idx_bytes({3}, {7, 0, 9});
  Bytes test_images = idx_bytes({2, 28, 28}, images_of(2));
  Bytes test_labels = idx_bytes({2}, {4, 5});
};

void write_all(const TemporaryFolder& folder, const Files& files, bool packed) {
  const Bytes* contents[] = {&files.train_images, &files.train_labels, &files.test_images, &files.test_labels};
  for (std::size_t i = 0; i < 4; ++i) {
    folder.write(kNames[i] + (packed ? ".gz" : ""), packed ? gzipped(*contents[i]) : *contents[i]);
  }
}

std::string load_error(const TemporaryFolder& folder) {
  return error_of([&] { load_dataset("mnist:" + folder.string(), 0); });
}

// The error for these files, without the path of the file named `name`.
std::string error_with(const Files& files, const std::string& name, bool packed = false) {
  const TemporaryFolder folder;
  write_all(folder, files, packed);
  const std::string text = load_error(folder);
  const std::string path = folder / (name + (packed ? ".gz" : ""));
  INFO(text);
  REQUIRE(text.starts_with(path + ": "));
  return text.substr(path.size() + 2);
}

}  // namespace

TEST_CASE("mnist:DIR loads plain and packed files alike") {
  for (const bool packed : {false, true}) {
    const TemporaryFolder folder;
    write_all(folder, {}, packed);
    const Dataset mnist = load_dataset("mnist:" + folder.string(), 0);
    CHECK(mnist.name == "mnist:" + folder.string());
    CHECK(mnist.features == 784);
    CHECK(mnist.classes == 10);
    CHECK(mnist.train.labels == std::vector<std::int64_t>{7, 0, 9});
    CHECK(mnist.test.labels == std::vector<std::int64_t>{4, 5});
    REQUIRE(mnist.train.images.size() == 3 * kPixels);
    REQUIRE(mnist.test.images.size() == 2 * kPixels);
    CHECK(mnist.train.images[0] == 0.0f);
    CHECK(mnist.train.images[255] == 1.0f);
    CHECK(mnist.train.images[2 * kPixels + 49] == 0.2f);  // pixel 51
  }
}

TEST_CASE("mnist:DIR takes a plain file before a packed one") {
  const TemporaryFolder folder;
  write_all(folder, {}, false);
  folder.write(kNames[0] + ".gz", {1, 2, 3});
  CHECK(load_error(folder).empty());
}

TEST_CASE("mnist:DIR names the folder or file that is missing") {
  const TemporaryFolder folder;
  CHECK(error_of([&] { load_dataset("mnist:" + folder / "none", 0); }) ==
        folder / "none" + ": cannot be read as a folder: No such file or directory");
  const std::string file = folder.write("file", {});
  CHECK(error_of([&] { load_dataset("mnist:" + file, 0); }) == file + ": cannot be read as a folder: Not a directory");

  for (const std::string& name : kNames) {
    write_all(folder, {}, true);
    std::filesystem::remove(folder / (name + ".gz"));
    CHECK(load_error(folder) ==
          folder.string() + ": holds neither " + name + " nor " + name +
              ".gz; mnist:DIR needs a folder with train-images-idx3-ubyte, train-labels-idx1-ubyte, "
              "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each as it is or with .gz");
  }
}

TEST_CASE("mnist:DIR says that a file can't be read") {
  const TemporaryFolder folder;
  write_all(folder, {}, true);
  std::filesystem::create_directory(folder / kNames[2]);
  CHECK(load_error(folder) == folder / kNames[2] + ": cannot be read: Is a directory");
}

TEST_CASE("mnist:DIR refuses images that are none or not 28 x 28") {
  Files files;
  files.train_images = idx_bytes({0, 28, 28}, {});
  CHECK(error_with(files, kNames[0]) == "at byte 4: expected at least 1 image, found 0");
  files.train_images = idx_bytes({1, 27, 28}, Bytes(27 * 28));
  CHECK(error_with(files, kNames[0]) == "at byte 8: expected images of 28 x 28, found 27 x 28");
  files.train_images = idx_bytes({1, 28, 29}, Bytes(28 * 29));
  CHECK(error_with(files, kNames[0]) == "at byte 12: expected images of 28 x 28, found 28 x 29");
}

TEST_CASE("mnist:DIR refuses labels that do not match the images") {
  Files files;
  files.test_labels = idx_bytes({3}, {1, 2, 3});
  const TemporaryFolder folder;
  write_all(folder, files, false);
  CHECK(load_error(folder) == folder / kNames[3] + ": at byte 4: expected 2 labels, one for each image of " +
                                  folder / kNames[2] + ", found 3");
}

TEST_CASE("mnist:DIR refuses a label above 9") {
  Files files;
  files.train_labels = idx_bytes({3}, {9, 0, 10});
  CHECK(error_with(files, kNames[1]) == "at byte 10: expected a label 0 to 9, found 10");
  CHECK(error_with(files, kNames[1], true) == "at byte 10 of the unpacked data: expected a label 0 to 9, found 10");
}

TEST_CASE("mnist:DIR refuses files given for one another") {
  Files files;
  std::swap(files.train_images, files.train_labels);
  CHECK(error_with(files, kNames[0]) ==
        "at byte 0: expected the IDX magic 00 00 08 03 (unsigned bytes, 3 dimensions), found 00 00 08 01");
}

TEST_CASE("mnist:DIR survives every change of one byte of a header and every cut") {
  const Files good;
  const TemporaryFolder folder;
  write_all(folder, good, false);
  for (std::size_t i = 0; i < 16; ++i) {
    for (const int change : {0x01, 0x80, 0xff}) {
      Bytes bad = good.train_images;
      bad[i] = static_cast<std::uint8_t>(bad[i] ^ change);
      folder.write(kNames[0], bad);
      CHECK_FALSE(load_error(folder).empty());
    }
  }
  for (std::size_t length = 0; length < good.train_images.size(); length += 97) {
    folder.write(kNames[0], Bytes(good.train_images.begin(), good.train_images.begin() + static_cast<int>(length)));
    CHECK_FALSE(load_error(folder).empty());
  }
}

TEST_CASE("mnist:DIR survives every change of one byte of a packed file") {
  const TemporaryFolder folder;
  write_all(folder, {}, true);
  const Bytes good = gzipped(Files().train_images);
  const Dataset expected = load_dataset("mnist:" + folder.string(), 0);
  int loaded = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    Bytes bad = good;
    bad[i] ^= 0x55;
    folder.write(kNames[0] + ".gz", bad);
    const std::string text = error_of([&] {
      const Dataset mnist = load_dataset("mnist:" + folder.string(), 0);
      CHECK(mnist.train.images == expected.train.images);
      ++loaded;
    });
    CHECK((text.empty() || text.starts_with(folder / kNames[0])));
  }
  CHECK(loaded == 6);  // gzip's time stamp, compression level and system, which harm nothing
}

}  // namespace fanout::models
