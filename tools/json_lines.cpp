// SPDX-License-Identifier: Apache-2.0
#include "tools/json_lines.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "runtime/device/error.h"

namespace fanout::tools {
namespace {

[[noreturn]] void fail(const char* option, const std::string& path, int code) {
  throw Error(fmt::format("{} {}: {}", option, path, std::strerror(code)));
}

}  // namespace

void require_writable(const char* option, const std::string& path) {
  if (std::filesystem::is_directory(path)) fail(option, path, EISDIR);
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    if (access(path.c_str(), W_OK) != 0) fail(option, path, errno);
    return;
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) fail(option, path, errno);
}

void write_whole(const char* option, const std::string& path, const std::string& text) {
  const std::string beside = path + ".part";
  std::FILE* const file = std::fopen(beside.c_str(), "w");
  if (file == nullptr) fail(option, path, errno);
  const bool is_written = std::fputs(text.c_str(), file) >= 0;
  const int code = errno;
  if (std::fclose(file) != 0 || !is_written) {
    (void)std::remove(beside.c_str());
    fail(option, path, is_written ? errno : code);
  }
  if (std::rename(beside.c_str(), path.c_str()) != 0) fail(option, path, errno);
}

JsonLines::~JsonLines() {
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
}

void JsonLines::require_writable() const {
  if (wanted() && !to_standard_output()) tools::require_writable("--json", path_);
}

void JsonLines::write(const std::string& object) {
  if (!wanted()) return;
  if (file_ == nullptr) {
    file_ = to_standard_output() ? stdout : std::fopen(path_.c_str(), "w");
    if (file_ == nullptr) fail("--json", path_, errno);
  }
  if (std::fputs((object + "\n").c_str(), file_) < 0 || std::fflush(file_) != 0) fail("--json", path_, errno);
}

}  // namespace fanout::tools
