// SPDX-License-Identifier: Apache-2.0
// Runs the built `fanout` and catches what it prints.
#pragma once

#include <string>
#include <vector>

namespace fanout::test {

struct Outcome {
  int status = -1;  // exit status, or 128 + signal
  std::string out, err;
};

/// Runs `fanout arguments…` with `environment` ("NAME=value") added.
Outcome run_fanout(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {});

/// A fresh folder, removed at the end of the scope.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string read_text(const std::string& path);

}  // namespace fanout::test
