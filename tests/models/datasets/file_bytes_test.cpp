// SPDX-License-Identifier: Apache-2.0
#include "models/datasets/file_bytes.h"

#include <catch2/catch.hpp>

#include "tests/models/datasets/temporary_folder.h"

namespace fanout::models {
namespace {

constexpr std::size_t kLimit = 1 << 20;

// Bytes that gzip can't shrink much.
Bytes noisy_bytes(std::size_t count) {
  Bytes bytes(count);
  std::uint32_t state = 1;
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

}  // namespace

TEST_CASE("read_file gives a file's bytes whether it is plain or gzip") {
  const TemporaryFolder folder;
  for (const std::size_t count : {0, 1, 65535, 65536, 65537, 300000}) {
    const Bytes bytes = noisy_bytes(count);
    const FileBytes plain = read_file(folder.write("plain", bytes), kLimit);
    CHECK(plain.bytes == bytes);
    CHECK_FALSE(plain.unpacked);
    const FileBytes packed = read_file(folder.write("packed.gz", gzipped(bytes)), kLimit);
    CHECK(packed.bytes == bytes);
    CHECK(packed.unpacked);
  }
}

TEST_CASE("read_file knows gzip by its mark when the name lacks .gz") {
  const TemporaryFolder folder;
  const FileBytes file = read_file(folder.write("plain", gzipped({1, 2, 3})), kLimit);
  CHECK(file.bytes == Bytes{1, 2, 3});
  CHECK(file.unpacked);
}

TEST_CASE("read_file joins the members of a gzip file") {
  const TemporaryFolder folder;
  const Bytes packed = joined(gzipped({1, 2}), gzipped({3}));
  CHECK(read_file(folder.write("two.gz", packed), kLimit).bytes == Bytes{1, 2, 3});
}

TEST_CASE("read_file takes a file of exactly the limit and refuses one byte more") {
  const TemporaryFolder folder;
  for (const std::size_t limit : {10, 65535, 65536, 100000}) {
    const Bytes fits(limit), too_long(limit + 1);
    CHECK(read_file(folder.write("plain", fits), limit).bytes == fits);
    CHECK(read_file(folder.write("packed.gz", gzipped(fits)), std::max<std::size_t>(limit, 50)).bytes == fits);
    const std::string plain = folder.write("plain", too_long);
    const std::string number = std::to_string(limit);
    CHECK(error_of([&] { read_file(plain, limit); }) ==
          plain + ": at byte " + number + ": expected the end of the data, at most " + number + " bytes, found more");
  }
  const std::string bomb = folder.write("bomb.gz", gzipped(Bytes(1 << 24)));
  CHECK(error_of([&] { read_file(bomb, kLimit); }) ==
        bomb +
            ": at byte 1048576 of the unpacked data: expected the end of the data, at most 1048576 bytes, found more");
}

TEST_CASE("read_file says why a file can't be read") {
  const TemporaryFolder folder;
  CHECK(error_of([&] { read_file(folder / "none", kLimit); }) ==
        folder / "none" + ": cannot be read: No such file or directory");
  CHECK(error_of([&] { read_file(folder.string(), kLimit); }) == folder.string() + ": cannot be read: Is a directory");
}

TEST_CASE("read_file says where a gzip stream breaks") {
  const TemporaryFolder folder;
  const Bytes good = gzipped({1, 2, 3, 4, 5, 6, 7, 8});  // 10 bytes of header, 8 of check and length at the end
  const auto error_with = [&](const Bytes& bytes) {
    const std::string path = folder.write("broken.gz", bytes);
    const std::string text = error_of([&] { read_file(path, kLimit); });
    REQUIRE(text.starts_with(path + ": "));
    return text.substr(path.size() + 2);
  };

  for (std::size_t length = 0; length < good.size(); ++length) {
    CHECK(error_with(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length))) ==
          "at byte " + std::to_string(length) +
              " of the packed file: expected more of the gzip stream, found the end of the file");
  }
  CHECK(error_with({'n', 'o', ' ', 'g', 'z', 'i', 'p'}) ==
        "at byte 2 of the packed file: expected a sound gzip stream, found: incorrect header check");
  CHECK(error_with(joined(good, {0, 0, 0})) ==
        "at byte " + std::to_string(good.size()) +
            " of the packed file: expected the end of the file after the gzip stream, found 3 more bytes");

  Bytes bad_check = good;
  bad_check[good.size() - 8] ^= 1;
  CHECK(error_with(bad_check) == "at byte " + std::to_string(good.size() - 4) +
                                     " of the packed file: expected a sound gzip stream, found: incorrect data check");
  Bytes bad_block = good;
  bad_block[10] = 0x07;  // a last block of the reserved type
  CHECK(error_with(bad_block) ==
        "at byte 11 of the packed file: expected a sound gzip stream, found: invalid block type");
}

}  // namespace fanout::models
