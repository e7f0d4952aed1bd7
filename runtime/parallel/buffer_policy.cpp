// SPDX-License-Identifier: Apache-2.0
#include "runtime/parallel/buffer_policy.h"

#include <fmt/format.h>

#include "kernels/arithmetic.h"
#include "runtime/device/context.h"
#include "runtime/tensor/copy.h"

namespace fanout {
namespace {

// "running_mean" fits "norm.running_mean", "mean" does not.
bool fits(std::string_view pattern, std::string_view name) {
  if (!name.ends_with(pattern)) return false;
  return name.size() == pattern.size() || name[name.size() - pattern.size() - 1] == '.';
}

[[noreturn]] void throw_unknown(const std::string& name, const std::vector<NamedTensor>& buffers) {
  std::string list;
  for (const NamedTensor& buffer : buffers) list += (list.empty() ? "" : ", ") + buffer.name;
  throw InvalidArgument(fmt::format("buffer_policies: no buffer is named \"{}\"; the module has {}", name,
                                    list.empty() ? "no buffers" : list));
}

void require_computable(const NamedTensor& buffer, BufferPolicy policy) {
  const DType dtype = buffer.tensor.dtype();
  const bool integers_will_do = policy == BufferPolicy::sum && dtype == DType::i64;
  if (policy == BufferPolicy::primary || is_floating(dtype) || integers_will_do) return;
  throw InvalidArgument(fmt::format("buffer_policies: \"{}\" has dtype {}; a mean needs f32 or f64, a sum i64 or these",
                                    buffer.name, name(dtype)));
}

// target = alpha * source + beta * target, both on the target's device.
template <class T>
void accumulate(const Tensor& target, T alpha, const Tensor& source, T beta) {
  const DeviceGuard guard(target.device());
  FANOUT_CHECK(kernels::axpby(compute_stream(target.device()).handle, target.data<T>(), alpha,
                              static_cast<const T*>(source.data<T>()), beta, target.elements()));
}

template <class T>
void write_mean(const Tensor& buffer, const std::vector<ReplicaBuffer>& replicas) {
  std::int64_t rows = 0;
  for (const ReplicaBuffer& replica : replicas) rows += replica.rows;
  const Tensor sum = zeros(buffer.shape(), buffer.dtype(), buffer.device());
  for (const auto& [tensor, its_rows] : replicas) {
    const double weight = rows > 0 ? static_cast<double>(its_rows) / static_cast<double>(rows)
                                   : 1.0 / static_cast<double>(replicas.size());
    accumulate(sum, static_cast<T>(weight), copied_to(tensor, buffer.device()), T(1));
  }
  copy(buffer, sum);
}

template <class T>
void write_sum(const Tensor& buffer, const Tensor& before, const std::vector<ReplicaBuffer>& replicas) {
  const Tensor sum = copied_to(before, buffer.device());
  for (const ReplicaBuffer& replica : replicas) {
    accumulate(sum, T(1), copied_to(replica.tensor, buffer.device()), T(1));
    accumulate(sum, T(-1), before, T(1));
  }
  copy(buffer, sum);
}

}  // namespace

std::vector<BufferPolicy> policies_for(const std::vector<NamedTensor>& buffers,
                                       const std::map<std::string, BufferPolicy>& named) {
  std::vector<BufferPolicy> policies(buffers.size(), BufferPolicy::primary);
  std::vector<std::size_t> matched(buffers.size(), 0);  // length of the name that holds so far
  for (const auto& [name, policy] : named) {
    bool known = false;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      if (!fits(name, buffers[i].name)) continue;
      known = true;
      require_computable(buffers[i], policy);
      if (name.size() <= matched[i]) continue;
      matched[i] = name.size();
      policies[i] = policy;
    }
    if (!known) throw_unknown(name, buffers);
  }
  return policies;
}

void combine_buffers(const Tensor& buffer, const Tensor& before, const std::vector<ReplicaBuffer>& replicas,
                     BufferPolicy policy) {
  if (policy == BufferPolicy::mean) {
    dispatch_floating(buffer.dtype(), "mean of a buffer",
                      [&]<class Tag>(Tag) { write_mean<typename Tag::type>(buffer, replicas); });
  } else if (buffer.dtype() == DType::i64) {
    write_sum<std::int64_t>(buffer, before, replicas);
  } else {
    dispatch_floating(buffer.dtype(), "sum of a buffer",
                      [&]<class Tag>(Tag) { write_sum<typename Tag::type>(buffer, before, replicas); });
  }
}

}  // namespace fanout
