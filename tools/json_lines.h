// SPDX-License-Identifier: Apache-2.0
// Files that the command writes: JSON lines, and whole texts.
#pragma once

#include <cstdio>
#include <string>

namespace fanout::tools {

/// Throws fanout::Error "--json FILE: why" if `path` could not be written; makes no file.
void require_writable(const char* option, const std::string& path);
/// Writes `text` to a file beside `path`, which takes its place once all of it is there. Throws as require_writable.
void write_whole(const char* option, const std::string& path, const std::string& text);

/// JSON lines, an object a line, to a file or standard output. The file is made at the first line, so that a run that
/// fails before leaves none. Throws fanout::Error naming the file when it cannot be written.
class JsonLines {
 public:
  /// `path` empty: nothing is written; "-": standard output.
  explicit JsonLines(std::string path) : path_(std::move(path)) {}
  ~JsonLines();
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;

  bool wanted() const { return !path_.empty(); }
  /// True once a line was written.
  bool started() const { return file_ != nullptr; }
  bool to_standard_output() const { return path_ == "-"; }
  /// Throws now if the file could not be written at the first line; makes no file.
  void require_writable() const;
  void write(const std::string& object);

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
};

}  // namespace fanout::tools
