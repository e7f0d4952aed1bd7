// SPDX-License-Identifier: Apache-2.0
#include "models/datasets/file_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <new>
#include <system_error>

#include "models/datasets/dataset.h"

#define ZLIB_CONST
#include <zlib.h>

namespace fanout::models {
namespace {

constexpr std::size_t kFirstBytes = 1 << 16;

std::size_t grown_size(std::size_t filled, std::size_t limit_bytes) {
  return std::min(std::max(2 * filled, kFirstBytes), limit_bytes + 1);  // one more, to see that the limit is passed
}

[[noreturn]] void fail_too_long(const FileBytes& file, std::size_t limit_bytes) {
  fail_at(file, limit_bytes, fmt::format("expected the end of the data, at most {} bytes, found more", limit_bytes));
}

[[noreturn]] void fail_to_read(const std::string& name, int error) {
  throw DatasetError(fmt::format("{}: cannot be read: {}", name, std::generic_category().message(error)));
}

FileBytes read_as_is(const std::filesystem::path& path, std::size_t limit_bytes) {
  FileBytes file{.name = path.string(), .unpacked = false, .bytes = {}};
  errno = 0;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!stream) fail_to_read(file.name, errno);
  std::size_t filled = 0;
  do {
    if (filled > limit_bytes) fail_too_long(file, limit_bytes);
    file.bytes.resize(grown_size(filled, limit_bytes));
    filled += std::fread(file.bytes.data() + filled, 1, file.bytes.size() - filled, stream.get());
  } while (filled == file.bytes.size());
  if (std::ferror(stream.get())) fail_to_read(file.name, errno);
  file.bytes.resize(filled);
  return file;
}

bool has_gzip_mark(std::span<const std::uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

// Owns zlib's state for one gzip stream.
class Inflater {
 public:
  explicit Inflater(std::span<const std::uint8_t> packed) : packed_(packed) {
    stream_.next_in = packed.data();
    stream_.avail_in = static_cast<uInt>(packed.size());
    if (inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK) throw std::bad_alloc();  // 16: gzip only
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Returns zlib's status, and takes from `room` what was written.
  int inflate_into(std::span<std::uint8_t>& room) {
    stream_.next_out = room.data();
    stream_.avail_out = static_cast<uInt>(room.size());
    const int status = inflate(&stream_, Z_NO_FLUSH);
    room = room.last(stream_.avail_out);
    return status;
  }
  void start_next_member() { inflateReset(&stream_); }
  std::span<const std::uint8_t> rest() const { return packed_.last(stream_.avail_in); }
  std::size_t position() const { return packed_.size() - stream_.avail_in; }
  const char* problem(int status) const { return stream_.msg ? stream_.msg : zError(status); }

 private:
  std::span<const std::uint8_t> packed_;
  z_stream stream_{};
};

// Decides whether the stream is at its end; throws where it is not sound.
bool is_finished(Inflater& inflater, int status, const std::string& name) {
  const auto fail = [&](const std::string& what) {
    throw DatasetError(fmt::format("{}: at byte {} of the packed file: {}", name, inflater.position(), what));
  };
  if (status == Z_OK) return false;
  if (status == Z_BUF_ERROR) fail("expected more of the gzip stream, found the end of the file");
  if (status != Z_STREAM_END) fail(fmt::format("expected a sound gzip stream, found: {}", inflater.problem(status)));
  if (inflater.rest().empty()) return true;
  if (!has_gzip_mark(inflater.rest())) {
    fail(
        fmt::format("expected the end of the file after the gzip stream, found {} more bytes", inflater.rest().size()));
  }
  inflater.start_next_member();
  return false;
}

}  // namespace

void fail_at(const FileBytes& file, std::uint64_t offset, const std::string& what) {
  throw DatasetError(
      fmt::format("{}: at byte {}{}: {}", file.name, offset, file.unpacked ? " of the unpacked data" : "", what));
}

std::vector<std::uint8_t> unpack_gzip(std::span<const std::uint8_t> packed, const std::string& name,
                                      std::size_t limit_bytes) {
  FileBytes file{.name = name, .unpacked = true, .bytes = {}};
  Inflater inflater(packed);
  std::size_t filled = 0;
  bool finished = false;
  while (!finished) {
    if (filled == file.bytes.size()) file.bytes.resize(grown_size(filled, limit_bytes));
    auto room = std::span(file.bytes).subspan(filled);
    const int status = inflater.inflate_into(room);
    filled = file.bytes.size() - room.size();
    if (filled > limit_bytes) fail_too_long(file, limit_bytes);
    finished = is_finished(inflater, status, name);
  }
  file.bytes.resize(filled);
  return std::move(file.bytes);
}

FileBytes read_file(const std::filesystem::path& path, std::size_t limit_bytes) {
  FileBytes file = read_as_is(path, limit_bytes);
  if (path.extension() != ".gz" && !has_gzip_mark(file.bytes)) return file;
  file.bytes = unpack_gzip(file.bytes, file.name, limit_bytes);
  file.unpacked = true;
  return file;
}

}  // namespace fanout::models
