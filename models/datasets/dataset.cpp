// SPDX-License-Identifier: Apache-2.0
#include "models/datasets/dataset.h"

#include <fmt/format.h>

#include <string_view>

#include "models/datasets/digits.h"
#include "models/datasets/mnist.h"
#include "models/datasets/synthetic.h"

namespace fanout::models {
namespace {

Dataset load_by_kind(const std::string& name, std::uint64_t seed) {
  const std::size_t colon = name.find(':');
  const bool has_argument = colon != std::string::npos;
  const std::string kind = name.substr(0, colon);
  const std::string argument = has_argument ? name.substr(colon + 1) : "";

  if (name == "digits") return load_digits();
  if (kind == "mnist") {
    if (argument.empty()) {
      throw DatasetNameError(
          fmt::format("data set '{}' lacks its folder; write mnist:DIR, where DIR holds MNIST's four IDX files", name));
    }
    return load_mnist(argument);
  }
  if (kind == "synthetic") return load_synthetic(argument, seed);
  throw DatasetNameError(
      fmt::format("unknown data set '{}'; allowed are digits, mnist:DIR and synthetic:ROWSxFEATURES", name));
}

}  // namespace

Dataset load_dataset(const std::string& name, std::uint64_t seed) {
  Dataset dataset = load_by_kind(name, seed);
  dataset.name = name;
  return dataset;
}

}  // namespace fanout::models
