// SPDX-License-Identifier: Apache-2.0
// The IDX file format, in which MNIST comes: a header of big-endian sizes, then bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "models/datasets/file_bytes.h"

namespace fanout::models {

struct IdxFile {
  FileBytes file;
  std::vector<std::uint32_t> sizes;  // one a dimension

  std::size_t header_bytes() const { return 4 + 4 * sizes.size(); }
  std::size_t size_offset(std::size_t dimension) const { return 4 + 4 * dimension; }
  std::span<const std::uint8_t> data() const { return std::span(file.bytes).subspan(header_bytes()); }
};

/// Reads an IDX file of unsigned bytes with `rank` dimensions, plain or gzip; `data()` has as many bytes as the sizes
/// say. Throws DatasetError, with the offset, for any other file and for one beyond `limit_bytes`. Source: "THE IDX
/// FILE FORMAT" on the MNIST page (LeCun, Cortes, Burges).
IdxFile read_idx(const std::filesystem::path& path, std::size_t rank, std::size_t limit_bytes);

}  // namespace fanout::models
