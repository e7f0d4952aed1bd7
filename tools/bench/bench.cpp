// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/bench.h"

#include "tools/bench/report.h"

namespace fanout::bench {

void run(const tools::BenchOptions& options) {
  Report report(options);
  switch (options.subject) {
    case tools::Subject::step:
      return bench_step(options, report);
    case tools::Subject::replicate:
      return bench_replicate(options, report);
    case tools::Subject::p2p:
      return bench_p2p(options, report);
    case tools::Subject::kernels:
      return bench_kernels(options, report);
    default:
      return bench_collective(options, report);
  }
}

}  // namespace fanout::bench
