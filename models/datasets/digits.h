// SPDX-License-Identifier: Apache-2.0
// The data set "digits": small, part of the program, good enough to see a network learn.
#pragma once

#include "models/datasets/dataset.h"

namespace fanout::models {

/// 1,797 handwritten digits of 8 x 8 pixels (data/README.md), split 1,437 to 360, always alike.
Dataset load_digits();

}  // namespace fanout::models
