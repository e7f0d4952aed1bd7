// SPDX-License-Identifier: Apache-2.0
#include "models/datasets/dataset.h"

#include <catch2/catch.hpp>

#include "tests/models/datasets/temporary_folder.h"

namespace fanout::models {

TEST_CASE("load_dataset lists what is allowed when it does not know a name") {
  for (const std::string name : {"", "cifar", "Digits", "digits:", "digits:8x8", ":", "mnist2:/tmp"}) {
    CHECK_THROWS_AS(load_dataset(name, 0), DatasetNameError);
    CHECK(error_of([&] { load_dataset(name, 0); }) ==
          "unknown data set '" + name + "'; allowed are digits, mnist:DIR and synthetic:ROWSxFEATURES");
  }
}

TEST_CASE("load_dataset asks for MNIST's folder") {
  for (const std::string name : {"mnist", "mnist:"}) {
    CHECK_THROWS_AS(load_dataset(name, 0), DatasetNameError);
    CHECK(error_of([&] { load_dataset(name, 0); }) ==
          "data set '" + name + "' lacks its folder; write mnist:DIR, where DIR holds MNIST's four IDX files");
  }
}

}  // namespace fanout::models
