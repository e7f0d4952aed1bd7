// SPDX-License-Identifier: Apache-2.0
// `fanout bench`.
#pragma once

#include "tools/options.h"

namespace fanout::bench {

class Report;

/// Measures what the options ask for and prints it. Throws UsageError where they do not fit the machine.
void run(const tools::BenchOptions& options);

/// The subjects.
void bench_collective(const tools::BenchOptions& options, Report& report);
void bench_replicate(const tools::BenchOptions& options, Report& report);
void bench_p2p(const tools::BenchOptions& options, Report& report);
void bench_kernels(const tools::BenchOptions& options, Report& report);
void bench_step(const tools::BenchOptions& options, Report& report);

}  // namespace fanout::bench
