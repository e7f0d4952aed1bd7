// SPDX-License-Identifier: Apache-2.0
#include "models/datasets/idx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace fanout::models {
namespace {

std::uint32_t big_endian(std::span<const std::uint8_t> bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

void check_magic(const FileBytes& file, std::size_t rank) {
  const std::array<std::uint8_t, 4> magic{0, 0, 8, static_cast<std::uint8_t>(rank)};  // 8: unsigned bytes
  const auto found = std::span(file.bytes).first(std::min(magic.size(), file.bytes.size()));
  if (std::ranges::equal(found, magic)) return;
  fail_at(file, 0,
          fmt::format("expected the IDX magic {:02x} (unsigned bytes, {} dimensions), found {}", fmt::join(magic, " "),
                      rank, found.empty() ? "an empty file" : fmt::format("{:02x}", fmt::join(found, " "))));
}

void check_length(const IdxFile& idx) {
  // Divided, not multiplied: a product of sizes from a damaged header may not fit in 64 bits.
  std::uint64_t rest = idx.data().size();
  const std::string sizes = fmt::format("{}", fmt::join(idx.sizes, " x "));
  bool enough = true;
  std::uint64_t expected = 1;
  for (const std::uint32_t size : idx.sizes) {
    enough = enough && (size == 0 || expected <= rest / size);
    expected = enough ? expected * size : expected;
  }
  if (!enough) {
    fail_at(idx.file, idx.file.bytes.size(),
            fmt::format("expected {} bytes of data after the header of {} bytes, found {}", sizes, idx.header_bytes(),
                        rest));
  }
  if (expected < rest) {
    fail_at(idx.file, idx.header_bytes() + expected,
            fmt::format("expected the end of the data ({} bytes after the header of {} bytes), found {} more bytes",
                        sizes, idx.header_bytes(), rest - expected));
  }
}

}  // namespace

IdxFile read_idx(const std::filesystem::path& path, std::size_t rank, std::size_t limit_bytes) {
  IdxFile idx{.file = read_file(path, limit_bytes), .sizes = std::vector<std::uint32_t>(rank)};
  check_magic(idx.file, rank);
  if (idx.file.bytes.size() < idx.header_bytes()) {
    fail_at(
        idx.file, idx.file.bytes.size(),
        fmt::format("expected a header of {} bytes, found {} bytes in all", idx.header_bytes(), idx.file.bytes.size()));
  }
  for (std::size_t i = 0; i < rank; ++i) {
    idx.sizes[i] = big_endian(std::span(idx.file.bytes).subspan(idx.size_offset(i), 4));
  }
  check_length(idx);
  return idx;
}

}  // namespace fanout::models
