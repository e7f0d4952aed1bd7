// SPDX-License-Identifier: Apache-2.0
// A whole file in memory, unpacked where it is gzip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace fanout::models {

struct FileBytes {
  std::string name;
  bool unpacked = false;  // whether the file is gzip; offsets then count unpacked bytes
  std::vector<std::uint8_t> bytes;
};

/// Throws DatasetError "NAME: at byte OFFSET: WHAT", where an offset into unpacked data says so.
[[noreturn]] void fail_at(const FileBytes& file, std::uint64_t offset, const std::string& what);

/// Reads a file. One that ends in .gz or begins with gzip's mark (1f 8b) is unpacked. Memory grows with what was read,
/// to about twice `limit_bytes` (under 4 GiB) at most; a file that holds more, packed or not, is refused.
/// Throws DatasetError when the file is missing, unreadable, too long, or not one whole gzip stream.
FileBytes read_file(const std::filesystem::path& path, std::size_t limit_bytes);

/// Unpacks a gzip stream of one or more members, at most `limit_bytes` (under 4 GiB). `name` is for errors.
std::vector<std::uint8_t> unpack_gzip(std::span<const std::uint8_t> packed, const std::string& name,
                                      std::size_t limit_bytes);

}  // namespace fanout::models
