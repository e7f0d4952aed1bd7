// SPDX-License-Identifier: Apache-2.0
#include "models/datasets/idx.h"

#include <catch2/catch.hpp>

#include "tests/models/datasets/temporary_folder.h"

namespace fanout::models {
namespace {

constexpr std::size_t kLimit = 1 << 20;

// The error for an IDX file of 3 dimensions with these bytes, without its path.
std::string error_with(const Bytes& bytes) {
  const TemporaryFolder folder;
  const std::string path = folder.write("images", bytes);
  const std::string text = error_of([&] { read_idx(path, 3, kLimit); });
  REQUIRE(text.starts_with(path + ": "));
  return text.substr(path.size() + 2);
}

}  // namespace

TEST_CASE("read_idx gives sizes and data of a plain and of a packed file") {
  const TemporaryFolder folder;
  const Bytes bytes = idx_bytes({2, 1, 3}, {1, 2, 3, 4, 5, 6});
  for (const std::string& path : {folder.write("images", bytes), folder.write("images.gz", gzipped(bytes))}) {
    const IdxFile idx = read_idx(path, 3, kLimit);
    CHECK(idx.sizes == std::vector<std::uint32_t>{2, 1, 3});
    CHECK(Bytes(idx.data().begin(), idx.data().end()) == Bytes{1, 2, 3, 4, 5, 6});
  }
}

TEST_CASE("read_idx reads a file whose sizes have a zero as empty") {
  const TemporaryFolder folder;
  CHECK(read_idx(folder.write("images", idx_bytes({0, 28, 28}, {})), 3, kLimit).data().empty());
}

TEST_CASE("read_idx names another magic") {
  CHECK(error_with({}) ==
        "at byte 0: expected the IDX magic 00 00 08 03 (unsigned bytes, 3 dimensions), found an empty file");
  CHECK(error_with({0, 0}) ==
        "at byte 0: expected the IDX magic 00 00 08 03 (unsigned bytes, 3 dimensions), found 00 00");
  CHECK(error_with(idx_bytes({3}, {1, 2, 3})) ==
        "at byte 0: expected the IDX magic 00 00 08 03 (unsigned bytes, 3 dimensions), found 00 00 08 01");
  CHECK(error_with({0x89, 'P', 'N', 'G', '\r', '\n'}) ==
        "at byte 0: expected the IDX magic 00 00 08 03 (unsigned bytes, 3 dimensions), found 89 50 4e 47");
}

TEST_CASE("read_idx says that a header is short") {
  CHECK(error_with({0, 0, 8, 3, 0, 0, 0, 1, 0}) == "at byte 9: expected a header of 16 bytes, found 9 bytes in all");
}

TEST_CASE("read_idx says that data is short or too long") {
  CHECK(error_with(idx_bytes({2, 1, 3}, {1, 2, 3, 4, 5})) ==
        "at byte 21: expected 2 x 1 x 3 bytes of data after the header of 16 bytes, found 5");
  CHECK(error_with(idx_bytes({2, 1, 3}, {1, 2, 3, 4, 5, 6, 7})) ==
        "at byte 22: expected the end of the data (2 x 1 x 3 bytes after the header of 16 bytes), found 1 more bytes");
  CHECK(
      error_with(idx_bytes({0, 28, 28}, {1})) ==
      "at byte 16: expected the end of the data (0 x 28 x 28 bytes after the header of 16 bytes), found 1 more bytes");
}

TEST_CASE("read_idx does not trust sizes whose product is beyond 64 bits") {
  CHECK(
      error_with(idx_bytes({UINT32_MAX, UINT32_MAX, UINT32_MAX}, {1})) ==
      "at byte 17: expected 4294967295 x 4294967295 x 4294967295 bytes of data after the header of 16 bytes, found 1");
  CHECK(error_with(idx_bytes({1u << 31, 1u << 31, 4}, {})) ==  // 2^64, 0 in 64 bits
        "at byte 16: expected 2147483648 x 2147483648 x 4 bytes of data after the header of 16 bytes, found 0");
}

TEST_CASE("read_idx says so when an offset counts unpacked bytes") {
  const TemporaryFolder folder;
  const std::string path = folder.write("images.gz", gzipped(idx_bytes({2, 1, 3}, {1, 2})));
  CHECK(
      error_of([&] { read_idx(path, 3, kLimit); }) ==
      path +
          ": at byte 18 of the unpacked data: expected 2 x 1 x 3 bytes of data after the header of 16 bytes, found 2");
}

}  // namespace fanout::models
