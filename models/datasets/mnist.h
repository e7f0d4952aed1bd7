// SPDX-License-Identifier: Apache-2.0
// The data set "mnist:DIR": MNIST, or another of its form such as Fashion-MNIST.
#pragma once

#include <filesystem>

#include "models/datasets/dataset.h"

namespace fanout::models {

/// Reads train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte from
/// `folder`, each as it is or, where that is missing, with .gz: images of 28 x 28, labels 0 to 9.
/// Throws DatasetError with file, offset, what was expected and what was found.
Dataset load_mnist(const std::filesystem::path& folder);

}  // namespace fanout::models
