// SPDX-License-Identifier: Apache-2.0
// A data set of labelled images in host memory, and how to get one by its name.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace fanout::models {

/// A data set can't be had; the text says which file, at which byte, what was expected and what was found.
class DatasetError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The name of a data set is not one that exists, or lacks its form; the text says what is allowed.
class DatasetNameError : public DatasetError {
 public:
  using DatasetError::DatasetError;
};

struct Split {
  std::vector<float> images;         // [rows, features] row-major, values 0..1
  std::vector<std::int64_t> labels;  // [rows], 0..classes-1
};

struct Dataset {
  std::string name;  // as asked for
  std::int64_t features = 0;
  std::int64_t classes = 0;
  Split train;
  Split test;
};

/// Loads a data set by name.
///   "digits"                    1,797 digits of 8 x 8 pixels, part of the program (data/README.md); always split alike
///   "mnist:DIR"                 MNIST's four IDX files in DIR, each plain or .gz
///   "synthetic:ROWSxFEATURES"   10 overlapping clusters drawn from `seed`, the same on every machine
/// `seed` matters to "synthetic" alone. Throws DatasetNameError for another name, DatasetError for damaged data.
Dataset load_dataset(const std::string& name, std::uint64_t seed);

}  // namespace fanout::models
