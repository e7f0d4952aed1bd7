// SPDX-License-Identifier: Apache-2.0
// `fanout train`: an MLP on digits, on one device or data-parallel on several.
#pragma once

#include "tools/options.h"

namespace fanout::tools {

/// Trains as `options` say and reports on standard output (on standard error where that carries JSON). Throws
/// UsageError for options that do not fit the machine, and what loading and training throw; nothing is written before
/// the first step.
void train(const TrainOptions& options);

}  // namespace fanout::tools
