// SPDX-License-Identifier: Apache-2.0
// What becomes of the values that replicas write to a buffer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/nn/module.h"

namespace fanout {

/// What the module's buffer holds after a forward in which replicas wrote it.
///   primary  what replica 0 wrote, as in torch; the others' values are lost
///   mean     the mean over the replicas that ran, weighted by their rows
///   sum      the value before, plus the change that each replica made
enum class BufferPolicy { primary, mean, sum };

/// The policy of each of `buffers`: `named` has full names or their last parts ("running_mean" for
/// "norm.running_mean"), the longest fitting one holds. Throws InvalidArgument for a name that fits no buffer, with the
/// names there are, and for a mean of integers.
std::vector<BufferPolicy> policies_for(const std::vector<NamedTensor>& buffers,
                                       const std::map<std::string, BufferPolicy>& named);

/// A buffer of one replica after the forward, and the replica's rows.
struct ReplicaBuffer {
  Tensor tensor;
  std::int64_t rows;
};

/// Writes to `buffer`, on the primary, what `policy` makes of the replicas' values. `before`: a copy of it from before
/// the forward. One of `replicas` may be `buffer` itself.
void combine_buffers(const Tensor& buffer, const Tensor& before, const std::vector<ReplicaBuffer>& replicas,
                     BufferPolicy policy);

}  // namespace fanout
