// SPDX-License-Identifier: Apache-2.0
// The data set "synthetic": as many rows and features as wanted.
#pragma once

#include "models/datasets/dataset.h"

namespace fanout::models {

/// 10 clusters in `size` = "ROWSxFEATURES", 80 % of the rows for training. Each class has a centre, 0.25..0.75 in every
/// feature; an image is its centre plus bell-shaped noise of standard deviation 0.144, cut to 0..1.
/// The same to the last bit on every machine. Throws DatasetNameError when `size` has another form or is too large.
Dataset load_synthetic(const std::string& size, std::uint64_t seed);

}  // namespace fanout::models
